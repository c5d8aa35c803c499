// SPDX-License-Identifier: Apache-2.0

/*
Package adapt implements the lock interfaces of other libraries with pawl. It does not import
those libraries.

	the library                  what to use
	---------------------------  ------------------------------------------------
	code with a sync.Locker      [Mutex]
	go-co-op/gocron v2           [GocronLocker], one run; [Elector], one scheduler
	robfig/cron v3               [CronJob]; [CronWrapper] for existing jobs
	caddyserver/certmagic        [CertMagicLocker]
	pressly/goose v3             [GooseLocker]
	net/http                     package adapthttp, in a subdirectory
	go-kratos/kratos v2          [KratosServer]: one instance of an app does the work
	zeromicro/go-zero            [GoZeroLock], in place of its redis.RedisLock

# What such an interface cannot do

A lease can be lost while its holder works: see package pawl. None of these interfaces can then
stop the work, or pass the token to it. [CronJob], [KratosServer] and package adapthttp can do
both. The others report the loss; the documentation of each says how. If work without the lock would do
harm, let the library call a function that calls Client.Do: its context ends with the lease, and the
lease has the token.
*/
package adapt
