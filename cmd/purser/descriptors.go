package main

import (
	"fmt"
	"syscall"

	"purser/cmd/purser/settings"
)

// Descriptors of the process are shared out at the start, so that no port can take those of the
// stores or of another port. Go's runtime raises the soft limit of a process to its hard limit.
const (
	ownDescriptors     = 48 // standard streams, the poller, listeners, profiles, directories
	adminConnections   = 32
	streamsShare       = 4 // a quarter of REST's connections may be hosted pages that follow their payment
	sandboxStores      = 3
	sandboxDescriptors = 80  // each: 64 tables, a log, a manifest and the outputs of a compaction
	storeDescriptors   = 16  // of the journal and the authorizer, beside their tables
	leastOpenTables    = 128 // for each of the journal and the authorizer
	mostOpenTables     = 1000
	leastOutbound      = 128 // to bank, ramp, webhook endpoints, Postgres, Kafka and chains
	mostOutbound       = 1536
	serverConnections  = 64 // outbound ones to Postgres, Kafka and chains
	leastRESTPlaces    = 128
	leastNetworkPlaces = 64
	keptShare          = 8 // an eighth of the limit is for the tables of a store, an eighth for outbound calls
	networkShare       = 3 // the card network has a third of the remaining descriptors
)

// descriptorShares are the descriptors of the stores and the ports.
type descriptorShares struct {
	openTables    int // the journal and the authorizer have so many each
	rest, network int // connections
	calls         int // outbound calls to bank, ramp and webhook endpoints at once
}

// shareDescriptors shares out a limit of open files. Connections are bounded by most, and by what
// the limit leaves for them. It fails when the limit is too low for the least shares, and names the
// least.
func shareDescriptors(limit uint64, most settings.Connections) (descriptorShares, error) {
	share := int(min(limit/keptShare, mostOpenTables))
	kept := func(tables, outbound int) int {
		return ownDescriptors + adminConnections + sandboxStores*sandboxDescriptors + 2*(storeDescriptors+tables) +
			outbound
	}
	least := kept(leastOpenTables, leastOutbound) + leastRESTPlaces + leastNetworkPlaces
	if limit < uint64(least) {
		return descriptorShares{}, fmt.Errorf("the limit of open files is %d, and purser needs %d: raise it, with "+
			"`ulimit -n %d` or LimitNOFILE= of the service", limit, least, least)
	}
	tables := max(share, leastOpenTables)
	outbound := max(int(min(limit/keptShare, mostOutbound)), leastOutbound)
	left := int(min(limit, 1<<30)) - kept(tables, outbound)
	network := min(max(left/networkShare, leastNetworkPlaces), most.Network)
	return descriptorShares{openTables: tables, network: network, rest: min(left-network, most.REST),
		calls: outbound - serverConnections}, nil
}

// descriptorLimit returns how many descriptors the process may have open. It fails only when the
// system does not say.
func descriptorLimit() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return uint64(limit.Cur), nil
}
