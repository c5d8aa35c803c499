// SPDX-License-Identifier: Apache-2.0

package main

import "errors"

// StoreFlag is the flag --store. An empty one is no default: it would be another store
// than that of others whose variable is set.
type StoreFlag string

func (v *StoreFlag) Set(s string) error {
	if s == "" {
		return errors.New("it is empty: is a variable of your script empty?")
	}
	if *v != "" {
		return errors.New("it is given twice: name one store")
	}
	*v = StoreFlag(s)
	return nil
}

func (v *StoreFlag) String() string { return string(*v) }

func (v *StoreFlag) Type() string { return "string" }

// StoreFlags is the flag --store of a command that reads several.
type StoreFlags []string

func (v *StoreFlags) Set(s string) error {
	var one StoreFlag
	if err := one.Set(s); err != nil {
		return err
	}
	*v = append(*v, s)
	return nil
}

func (v *StoreFlags) String() string { return "" }

func (v *StoreFlags) Type() string { return "string" }
