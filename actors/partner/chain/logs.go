package chain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"purser/actors/partner"
)

// Limits of how long a node's refusal of one address in one block is doubted.
const (
	crowdedQueries = 8   // refusals before the address's transfers in that block are given up
	maxCrowded     = 256 // pairs of address and block that are counted; beyond it all counts begin again
)

// neverPaid is a topic that no address has, so that a query for it has an empty answer.
var neverPaid = "0x" + strings.Repeat("f", 64)

// crowd is an address in a block.
type crowd struct {
	block uint64
	topic string
}

// queryLogs returns the transfers of the known tokens to the topics. Nodes limit an answer: anybody
// can send ten thousand transfers of nothing to one address. After a refusal the range is halved,
// and in one block the topics are. An address with too many transfers in one block is an error
// crowdedQueries times, and then those transfers are left out: they must not hide the payments to
// other addresses.
func (e *evm) queryLogs(ctx context.Context, from, through uint64, topics []string) ([]partner.Observation, error) {
	logs, err := e.fetchLogs(ctx, from, through, topics)
	switch {
	case err == nil || !isTooMuch(err):
		return logs, err
	case from < through:
		middle := from + (through-from)/2
		logs, err = e.queryLogs(ctx, from, middle, topics)
		if err != nil {
			return nil, err
		}
		rest, err := e.queryLogs(ctx, middle+1, through, topics)
		if err != nil {
			return nil, err
		}
		return appendFound(logs, rest...)
	case len(topics) > 1:
		half := len(topics) / 2
		logs, err = e.queryLogs(ctx, from, through, topics[:half])
		if err != nil {
			return nil, err
		}
		rest, err := e.queryLogs(ctx, from, through, topics[half:])
		if err != nil {
			return nil, err
		}
		return appendFound(logs, rest...)
	}
	return nil, e.doubtCrowd(ctx, crowd{from, topics[0]}, err)
}

// doubtCrowd counts a refusal of one address in one block. It returns nil after crowdedQueries of
// them between which the node answered a query for the same block: the refusal is about the
// address.
func (e *evm) doubtCrowd(ctx context.Context, c crowd, refusal error) error {
	if _, err := e.fetchLogs(ctx, c.block, c.block, []string{neverPaid}); err != nil {
		return refusal
	}
	if _, known := e.crowds[c]; !known && len(e.crowds) >= maxCrowded {
		clear(e.crowds)
	}
	if e.crowds[c]++; e.crowds[c] > crowdedQueries {
		return nil
	}
	return fmt.Errorf("the transfers to 0x%s in block %d: %w", c.topic[26:], c.block, refusal)
}

// fetchLogs asks the node once for the transfers of all known tokens in a range of blocks, and
// converts each log as it arrives. It leaves out amounts of zero and logs that the node marks as
// removed. It fails with the node's error, with errTooLong for more than maxLogs, and for a log
// that cannot be read or lies outside the blocks.
func (e *evm) fetchLogs(ctx context.Context, from, through uint64, topics []string) (found []partner.Observation,
	err error) {
	contracts := make([]string, 0, len(e.tokens))
	for contract := range e.tokens {
		contracts = append(contracts, contract)
	}
	slices.Sort(contracts)
	err = e.rpc.streamMethod(ctx, listOf(maxLogs, func(l *evmLog) error {
		o, err := e.parseTokenLog(l)
		if err == nil && (o.Block < from || o.Block > through) {
			err = fmt.Errorf("a log of block %d", o.Block)
		}
		if err == nil && !l.Removed && o.Amount != "0" {
			found = append(found, o)
		}
		return err
	}), "eth_getLogs", map[string]any{"fromBlock": formatQuantity(from),
		"toBlock": formatQuantity(through), "address": contracts, "topics": []any{transferTopic, nil, topics}})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// isTooMuch reports whether a node may have refused a query for the size of its answer. Nodes have
// no common error for that.
func isTooMuch(err error) bool {
	_, refused := errors.AsType[*rpcError](err)
	status, answered := errors.AsType[httpStatus](err)
	return refused || errors.Is(err, errTooLong) ||
		answered && (status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge)
}
