// SPDX-License-Identifier: Apache-2.0

//go:build !noetcd

package main

import "github.com/pawl-go/pawl/cmd/pawl/internal/etcd"

func init() { etcdOpen = etcd.Open }
