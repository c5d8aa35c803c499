// SPDX-License-Identifier: Apache-2.0
import { kind, long, make, plain, set, who } from './text.js';

const most = 500; // rows: more would be slow, and nobody would read them
const first = (times) => Math.min(...times.map((t) => Date.parse(t)).filter((t) => t > 0));
const several = (list, f) => {
	const texts = list.slice(0, 3).map(f);
	if (list.length > 3) texts.push(`and ${list.length - 3} more`);
	return texts.join('\n');
};

// Columns: what is shown, and what is sorted by, if that is another thing. What is live
// changes with the time; the rest with the lock only.
const columns = [
	{ title: 'Name', text: (l) => plain(l.name) },
	{ title: 'Held by', text: (l) => several(l.holders, (h) => who(h) + (h.orphan ? ' (ended; what it started goes on)' : '')) || 'nobody' },
	{ title: 'For', text: (l, now) => l.heldFor(now) < 0 ? '' : long(l.heldFor(now)), by: (l, now) => l.heldFor(now), down: true, live: true },
	{ title: 'Why', text: (l) => several(l.holders.filter((h) => h.why), (h) => plain(h.why)) },
	{ title: 'Kind', text: (l) => l.holders[0] ? kind(l.holders[0]) : '' },
	{ title: 'Token', text: (l) => String(l.holders[0]?.token ?? l.token ?? ''), by: (l) => l.holders[0]?.token ?? l.token, down: true },
	{ title: 'Waiters', text: (l) => l.waiters.length ? String(l.waiters.length) : '', by: (l) => l.waiters.length, down: true },
	{ title: 'First waits', text: (l, now) => l.waitsFor(now) < 0 ? '' : long(l.waitsFor(now)), by: (l, now) => l.waitsFor(now), down: true, live: true },
	{ title: 'Store', text: (l) => plain(l.store) },
];

// text returns the text in a column of a lock.
const text = (l, column, now) => columns[column].live ? columns[column].text(l, now) : (l.cells ??= [])[column] ??= columns[column].text(l);

// matches reports whether text, in lower case, contains all words of filter.
export const matches = (text, filter) => filter.toLowerCase().split(/\s+/).every((w) => text.includes(w));

// Table shows the locks. It calls open with the key of a lock that the user wants to see.
export class Table {
	constructor(known, open) {
		Object.assign(this, { known, open, rows: new Map(), sorted: columns.findIndex((c) => c.title === 'First waits'), down: true });
		this.heads = columns.map((c, i) => {
			const th = document.getElementById('columns').appendChild(make('th'));
			th.scope = 'col';
			th.appendChild(make('button', c.title)).addEventListener('click', () => {
				this.down = this.sorted === i ? !this.down : !!c.down;
				this.sorted = i;
				this.show(...this.last);
			});
			return th;
		});
	}

	// show shows the locks that match filter, and returns them in order.
	show(filter, waited) {
		this.last = [filter, waited];
		const now = this.known.now();
		const found = [];
		for (const l of this.known.locks.values()) {
			l.text ??= [l.name, l.store, ...l.holders.flatMap((h) => [who(h), h.why, kind(h)]), ...l.waiters.map(who)].map(plain).join('\n').toLowerCase();
			l.heldFor ??= since(first(l.holders.map((h) => h.acquired)));
			l.waitsFor ??= since(first(l.waiters.map((w) => w.since)));
			if ((!waited || l.waiters.length) && matches(l.text, filter)) found.push(l);
		}
		const by = columns[this.sorted].by ?? ((l) => text(l, this.sorted, now)), sign = this.down ? -1 : 1;
		const order = (a, b) => typeof a === 'number' ? a - b : a < b ? -1 : a > b ? 1 : 0;
		found.sort((a, b) => sign * order(by(a, now), by(b, now)) || b.heldFor(now) - a.heldFor(now) || order(a.key, b.key));
		this.fill(found.slice(0, most), now);
		this.heads.forEach((th, i) => th.setAttribute('aria-sort', i !== this.sorted ? 'none' : this.down ? 'descending' : 'ascending'));
		set(document.getElementById('more'), found.length > most ? `${most} of ${found.length} are shown: filter for others` :
			found.length ? '' : this.known.locks.size ? 'None matches the filter.' : 'Nobody holds a lock or waits for one.');
		return found;
	}

	// longest returns the lock whose first waiter has waited longest, if that is at least a second.
	longest(now) {
		let first;
		for (const l of this.known.locks.values()) if (l.waitsFor(now) >= Math.max(1000, first?.waitsFor(now) ?? 0)) first = l;
		return first;
	}

	fill(locks, now) {
		const body = document.getElementById('rows'), focused = document.activeElement;
		const there = new Set(locks.map((l) => l.key));
		for (const [key, row] of this.rows) {
			if (!there.has(key)) {
				row.remove();
				this.rows.delete(key);
			}
		}
		locks.forEach((l, i) => {
			let row = this.rows.get(l.key);
			if (!row) this.rows.set(l.key, row = this.row(l.key));
			if (body.children[i] !== row) body.insertBefore(row, body.children[i] ?? null);
			columns.forEach((_, j) => {
				const shown = text(l, j, now);
				if (row.texts[j] !== shown) (j ? row.children[j] : row.children[0].firstChild).textContent = row.texts[j] = shown;
			});
			row.className = l.overdue.size ? 'overdue' : '';
		});
		if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
	}

	row(key) {
		const row = make('tr');
		row.setAttribute('role', 'row');
		row.texts = [];
		columns.forEach((c, j) => {
			const cell = row.appendChild(make(j ? 'td' : 'th'));
			cell.dataset.title = c.title;
			cell.setAttribute('role', j ? 'cell' : 'rowheader');
			if (!j) cell.appendChild(make('button')).addEventListener('click', (e) => this.open(key, e.target));
		});
		return row;
	}
}

// since returns how long before a time t was, or -1 if t is not known. It returns 0 for a later t: another
// machine's clock may be ahead.
const since = (t) => t === Infinity ? () => -1 : (now) => Math.max(0, now - t);
