package actors

import "fmt"

// ReplyAs returns the reply of Ask as the type with which an actor answers the command. It fails
// with err when err is set, and with a plain error, which is a bug, when the reply has another
// type. Callers wrap it around Ask.
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
