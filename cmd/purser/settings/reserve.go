package settings

import "purser/persistence/pebblegate"

// Bounds of PURSER_DISK_RESERVE, the free space of a store's disk below which approvals stop.
const (
	// LastReserve is the free space below which the card network's facts are refused too. It covers
	// the flush of every store's memtables, and writesBetween.
	LastReserve = mostStores*pebblegate.FlushBytes + writesBetween
	// mostStores are the stores of one process: journal, authorizer, and the sandbox's three.
	mostStores = 5
	// writesBetween bounds the bytes that all stores write between two measurements, with their
	// small files. MaxUnsynced commits of 8 KiB are 28 MiB in each of the two stores of a swipe.
	writesBetween = 64 << 20
	// MinDiskReserve leaves 128 MiB above LastReserve for facts.
	MinDiskReserve     = LastReserve + 128<<20
	defaultDiskReserve = "1GiB"
)
