package network

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"purser/authorizer/hold"
)

func TestPulseDetectsGaps(t *testing.T) {
	var p pulse
	second := int64(time.Second)
	_, frozen := p.gapBefore(second)
	require.False(t, frozen, "it has not begun")
	p.recordBeat(second, 0)
	_, frozen = p.gapBefore(second + int64(frozenAfter) - 1)
	require.False(t, frozen)
	since, frozen := p.gapBefore(5 * second)
	require.True(t, frozen, "the message is read before the first beat")
	require.Zero(t, since)
	p.recordBeat(5*second, 0)
	since, frozen = p.gapBefore(5*second + 7)
	require.True(t, frozen)
	require.Equal(t, 7*time.Nanosecond, since)
	p.recordBeat(5*second+int64(pulseEvery), 0)
	_, frozen = p.gapBefore(5*second + int64(pulseEvery))
	require.True(t, frozen, "the kernel is asked for a while")
	p.last.Store(5*second + int64(doubtFor))
	_, frozen = p.gapBefore(5*second + int64(doubtFor))
	require.False(t, frozen)
}

// tcpPair returns the two ends of a TCP connection.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	client, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	server, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(client.Close(), server.Close())) })
	return client, server
}

// After a gap the kernel gives the age of the bytes in a socket. Messages of other connections
// count as old as the gap, for the answer's time after it.
func TestKernelGivesTheAgeOfAMessage(t *testing.T) {
	var p pulse
	p.began = time.Now().Add(-time.Hour)
	client, conn := tcpPair(t)
	_, err := client.Write([]byte("message"))
	require.NoError(t, err)
	require.Zero(t, p.waitedInSocket(conn, hold.AnswerWithin), "without a pulse nothing is known")
	p.recordBeat(p.sinceStart(), 0)
	p.awake.Store(p.sinceStart())
	_, known := receivedAgo(conn)
	require.True(t, known)
	require.Eventually(t, func() bool {
		p.recordBeat(p.sinceStart(),
			0)
		return p.waitedInSocket(conn, hold.AnswerWithin) >= hold.AnswerWithin
	}, time.Minute,
		time.Millisecond)
	_, err = client.Write([]byte("another"))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p.recordBeat(p.sinceStart(),
			0)
		return p.waitedInSocket(conn, hold.AnswerWithin) < hold.AnswerWithin
	}, time.Minute,
		time.Millisecond)

	inside, outside := net.Pipe()
	defer inside.Close()
	defer outside.Close()
	p.last.Store(p.sinceStart() - int64(time.Minute))
	require.GreaterOrEqual(t, p.waitedInSocket(inside, hold.AnswerWithin), time.Minute, "in the gap")
	p.recordBeat(p.sinceStart(), 0)
	require.GreaterOrEqual(t, p.waitedInSocket(inside, time.Hour), time.Minute, "after the gap")
	p.awake.Store(p.sinceStart() - int64(time.Second))
	require.Zero(t, p.waitedInSocket(inside, hold.AnswerWithin), "it arrived after the gap")
}

// Neither the process's clock nor the kernel's age of bytes counts the sleep of a machine. A
// message from before the wake-up is older by the sleep; a later message is not.
func TestMachineSleepAgesEarlierMessages(t *testing.T) {
	var p pulse
	p.began = time.Now().Add(-time.Hour)
	client, conn := tcpPair(t)
	p.recordBeat(p.sinceStart(), time.Minute)
	_, err := client.Write([]byte("before"))
	require.NoError(t, err)
	p.last.Store(p.sinceStart())
	p.recordBeat(p.sinceStart(), time.Minute+hold.AnswerWithin)
	require.Eventually(t, func() bool { age, _ := receivedAgo(conn); return age > 0 }, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, p.waitedInSocket(conn, hold.AnswerWithin), hold.AnswerWithin)

	awake := p.sinceStart()
	require.Eventually(t, func() bool { return p.sinceStart()-awake > int64(20*time.Millisecond) }, time.Minute,
		time.Millisecond)
	_, err = client.Write([]byte("after"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.waitedInSocket(conn, hold.AnswerWithin) < hold.AnswerWithin }, time.Minute,
		time.Millisecond)
}

// The machine's sleep by the kernel's clocks never shrinks.
func TestMachineSleepNeverShrinks(t *testing.T) {
	first, known := machineSleep()
	for !known {
		first, known = machineSleep()
	}
	again, _ := machineSleep()
	require.GreaterOrEqual(t, again+sleepReadWithin, first)
}

// Shutdown stops the pulse of a server for good.
func TestPulseStopsWithItsServer(t *testing.T) {
	server, err := New(Options{Decider: decider(approve), Secrets: []string{testSecret}, Clock: time.Now})
	require.NoError(t, err)
	require.NoError(t, server.Shutdown(context.Background()))
	server.pulse.start()
	require.Zero(t, server.pulse.last.Load())
}
