# SPDX-License-Identifier: Apache-2.0
"""A guest that does not know pawl: it takes the same locks with the Lock of redis-py or kazoo.

It writes a diary in the format of command worker. It has no tokens, and writes 0 instead. It believes in its
lock as far as its library allows: with Redis for nine tenths of the TTL, from before the request; with
ZooKeeper while the session is connected.
"""
import argparse
import os
import random
import signal
import time

p = argparse.ArgumentParser()
for flag in "store", "log", "names", "ttl", "seed", "lanes":
    p.add_argument("-" + flag)
p.add_argument("-v", action="store_true")
p.add_argument("-kind")
args = p.parse_args()
random.seed(args.seed)
ttl = float(args.ttl.rstrip("s"))
diary = os.open(args.log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
ended = False


def end(*_):
    global ended
    ended = True


signal.signal(signal.SIGTERM, end)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def write(at, text):
    os.write(diary, f"{at} {text}\n".encode())


def redis_lock():
    import redis

    host, port = args.store.split(":")
    client = redis.Redis(host, int(port), socket_timeout=2)

    def lock(name):
        return client.lock("pawl:{" + name + "}", timeout=ttl, blocking_timeout=2 * ttl, sleep=0.02)

    return lock, lambda began: now() < began + ttl * 0.9e9


def zookeeper_lock():
    from kazoo.client import KazooClient

    client = KazooClient(hosts=args.store, timeout=ttl)
    client.start(60)

    class Timed:
        def __init__(self, name):
            self.lock = client.Lock("/pawl/" + name, "kazoo", extra_lock_patterns=["-lock-", "-read-"])

        def acquire(self):
            self.session = client.client_id
            return self.lock.acquire(timeout=2 * ttl)

        def release(self):
            self.lock.release()

    return Timed, lambda began: client.connected


lock, believes = {"redis": redis_lock, "zookeeper": zookeeper_lock}[args.kind]()
names = [n for n in args.names.split(",") if n.startswith("one-")]
write(now(), f"open {os.getpid()} {args.kind}")
n = 0
while not ended:
    n += 1
    name = random.choice(names)
    write(now(), f"ask {n} {name} alone 0 wait")
    try:
        held = lock(name)
        began = now()
        if not held.acquire():
            write(now(), f"failed {n} in vain")
            continue
        write(now(), f"grant {n} 0 -")
        until = now() + random.uniform(0, 0.1) * 1e9
        while True:
            t = now()
            if not believes(began):
                write(now(), f"ended {n} lost")
                break
            write(t, f"held {n}")
            if t > until or ended:
                break
            time.sleep(0.003)
        write(now(), f"giving {n}")
        held.release()
        write(now(), f"gave {n} -")
    except Exception as e:  # the server is in trouble, or the lock was lost
        write(now(), f"gave {n} " + repr(e).replace("\n", " "))
    time.sleep(random.uniform(0, 0.05))
