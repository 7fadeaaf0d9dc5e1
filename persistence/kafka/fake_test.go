package kafka_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"purser/persistence/kafka"
)

// Behaviour that only a broker in the test's control can show.

// listenAlone listens at a loopback address of this process alone, so that no other process takes
// the port while the broker is down. On a machine with one loopback address it is that one.
func listenAlone(network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	pid := os.Getpid()
	l, err := net.Listen(network, fmt.Sprintf("127.%d.%d.%d:%s", 64+pid>>16&0x7f, pid>>8&0xff, pid&0xff, port))
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return net.Listen(network, "127.0.0.1:"+port)
	}
	return l, err
}

func TestBrokerRestarts(t *testing.T) {
	dir := t.TempDir()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.ListenFn(listenAlone))
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	require.NoError(t, err)
	f := newFixture(t, c.ListenAddrs())
	o, patient := &outlet{}, &memoryConsumer{}
	f.publish(f.topic, f.journal.Journal, o)
	f.tailing(never, patient)
	f.journal.blind.Store(true)
	f.appendEverywhere(2)
	f.handled(patient)
	failed := o.failed.Load()
	c.Close()
	f.appendEverywhere(2)
	f.eventually(func() bool { return o.failed.Load() > failed+10 }, "the publisher does not see that the broker is gone")
	at, err := strconv.Atoi(port)
	require.NoError(t, err)
	f.eventually(func() bool { // the port may be held for a moment
		c, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.ListenFn(listenAlone), kfake.Ports(at))
		return err == nil
	}, "the broker does not start again")
	t.Cleanup(c.Close)
	f.handled(patient) // from the topic: the journal is not to be read
	f.eventually(func() bool { return o.resumed.Load() > 0 }, "nobody was told that it goes on")
	require.Zero(t, patient.gaps.Load())
}

// TestBrokerAnswersLate: the broker appends and then says that the append failed.
func TestBrokerAnswersLate(t *testing.T) {
	fake := startFake(t)
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 50})
	f := newFixture(t, fake.ListenAddrs())
	c := &memoryConsumer{}
	f.publish(f.topic, f.journal.Journal, nil)
	f.tailing(never, c)
	f.journal.blind.Store(true)
	f.appendEverywhere(3)
	require.NoError(t, fault.Wait(f.ctx, 50))
	f.handled(c)
	f.eventually(func() bool { return c.repeated.Load() > 0 }, "no repeat came")
	require.Zero(t, c.gaps.Load())
}

// TestAFullDiskOfABrokerIsNamed: the listener gets the reason, and the events are published when
// the disk has room.
func TestAFullDiskOfABrokerIsNamed(t *testing.T) {
	for _, refusal := range []*kerr.Error{kerr.KafkaStorageError, kerr.NotEnoughReplicas} {
		fake := startFake(t)
		fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: refusal, Count: 50})
		f := newFixture(t, fake.ListenAddrs())
		o := &outlet{}
		f.publish(f.topic, f.journal.Journal, o)
		f.appendEverywhere(1)
		require.NoError(t, fault.Wait(f.ctx, 1))
		f.eventually(func() bool { return o.failure.Load() != nil }, "the listener gets no reason")
		require.ErrorContains(t, *o.failure.Load(), "disk")
		require.Equal(t, refusal == kerr.KafkaStorageError, errors.Is(*o.failure.Load(), kafka.ErrFullDisk))
		require.NoError(t, fault.Wait(f.ctx, 50))
		f.published()
	}
}

// TestReadsFail: a consumer whose reads fail now and then, and whose partitions move, misses nothing and needs no journal.
func TestReadsFail(t *testing.T) {
	fake := startFake(t, kfake.NumBrokers(3))
	f := newFixture(t, fake.ListenAddrs())
	c := &memoryConsumer{}
	f.publish(f.topic, f.journal.Journal, nil)
	f.tailing(never, c)
	f.journal.blind.Store(true)
	for range 5 {
		fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 20})
		fake.ShufflePartitionLeaders()
		f.appendEverywhere(2)
		f.handled(c)
	}
	require.Zero(t, c.gaps.Load())
}
