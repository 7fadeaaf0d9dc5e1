package kafka_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"purser/persistence/kafka"
)

// TestAnIdleShardHasNoGoroutineOfThePublisher: a publisher has a goroutine for each partition, and
// one that runs it.
func TestAnIdleShardHasNoGoroutineOfThePublisher(t *testing.T) {
	f := newFixture(t, startFake(t).ListenAddrs())
	f.publish(f.topic, f.journal, nil)
	for range 3 {
		f.appendEverywhere(1)
		f.published()
		require.Equal(t, 1+kafka.Partitions, publisherGoroutines())
	}
}

// publisherGoroutines counts the goroutines with a method of a Publisher or of its lanes in their
// stack.
func publisherGoroutines() (n int) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		calls, _, _ := strings.Cut(stack, "\ncreated by ")
		if strings.Contains(calls, "kafka.(*Publisher).") || strings.Contains(calls, "kafka.(*lane).") {
			n++
		}
	}
	return n
}
