//go:build !unix

package main

// lowerPriority does nothing: the system has no setpriority.
func lowerPriority(int, ...string) error { return nil }
