package settings

import "purser/persistence/pebblegate"

// Bounds of PURSER_DISK_RESERVE, the free space of a store's disk below which approvals stop.
const (
	// LastReserve is the free space below which the card network's facts are refused too. It covers
	// the flush of every store's memtables, and writesBetween.
	LastReserve = mostStores*pebblegate.FlushBytes + writesBetween
	// mostStores are the stores of one process: journal, authorizer and sandbox.
	mostStores = 3
	// writesBetween bounds the bytes that all stores write between two measurements of the free
	// space, their small files included. A swipe writes to two stores: in each of them,
	// MaxUnsynced commits of 8 KiB are 28 MiB.
	writesBetween = 64 << 20
	// MinDiskReserve leaves 256 MiB above LastReserve for facts.
	MinDiskReserve     = LastReserve + 256<<20
	DefaultDiskReserve = "1GiB" // the default of PURSER_DISK_RESERVE
)
