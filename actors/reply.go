package actors

import "fmt"

// ReplyAs returns the reply of Ask as the type with which an actor answers the command. Every other
// type is an internal error.
func ReplyAs[R any](reply any, err error) (R, error) {
	var none R
	if err != nil {
		return none, err
	}
	typed, ok := reply.(R)
	if !ok {
		return none, fmt.Errorf("an actor answered %T instead of %T", reply, none)
	}
	return typed, nil
}
