// SPDX-License-Identifier: Apache-2.0

/*
Package adapt puts pawl's leases behind the interfaces that other libraries ask
for, without depending on any of them.

	the library                  what to give it
	---------------------------  ------------------------------------------------
	whatever takes a sync.Locker [Mutex]
	go-co-op/gocron v2           [GocronLocker], one run; [Elector], one scheduler
	robfig/cron v3               [CronJob]; [CronWrapper] for jobs that exist
	caddyserver/certmagic        [CertMagicLocker]
	pressly/goose v3             [GooseLocker]
	net/http                     package adapthttp, below this one
	go-kratos/kratos v2          [KratosServer], one instance of an app does the work
	zeromicro/go-zero            [GoZeroLock], in the place of its redis.RedisLock

# What such an interface cannot carry

A lease can be lost while its holder works: see package pawl. None of these
interfaces has a way to stop the work then, nor to hand it the token. [CronJob],
[KratosServer] and package adapthttp do both. Of the others each says what it does about a loss; none
goes on in silence. Where working without the lock would be wrong and not only a
waste, let the library call a function that calls Client.Do: its context ends with
the lease, and the lease has the token.
*/
package adapt
