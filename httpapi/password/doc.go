// Package password hashes passwords with argon2id and isolates that work: one hash at a time, in
// the order of a bounded queue that addresses share, in a process of low priority.
//
//   - password.go: hashes in the PHC form, and their check.
//   - queue.go: the queue.
//   - worker.go: the process that derives keys, and its client.
package password
