// SPDX-License-Identifier: Apache-2.0
import { clock, long, make, plain, set } from './text.js';
import { matches } from './table.js';

const most = 20;                      // names
const minute = 60000, columns = 60;   // at most 60 columns: for a longer time, a column is more than a minute
const steps = [0.1, 1, 3, 10, 30];    // numbers of waiters from which the colour is darker

// Heat is a table of the average number of waiters for each name, in each minute.
export class Heat {
	constructor(known, section, open) {
		Object.assign(this, { known, section, open });
		[this.head, this.body, this.more, this.legend] = ['heat-minutes', 'heat-rows', 'heat-more', 'heat-legend'].map((id) => document.getElementById(id));
	}

	// show shows the names that match filter, for the last width milliseconds.
	show(filter, width) {
		const step = Math.max(1, Math.ceil(width / minute / columns)) * minute;
		const now = this.known.now() - this.known.ahead, last = Math.floor(now / step), n = Math.ceil(width / step), first = last - n + 1;
		const names = this.sums(filter, step, first, last, now);
		this.section.hidden = !names.length;
		if (!names.length) {
			this.width = 0;
			return;
		}
		const shown = names.sort((a, b) => b.all - a.all || (a.key < b.key ? -1 : 1)).slice(0, most);
		set(this.legend, `How many waited, on average, in each ${step === minute ? 'minute' : `${step / minute} minutes`}. A dot is less than one in ten.`);
		set(this.more, names.length > most ? `${most} of ${names.length} are shown, those that were waited for most: filter for others` : '');
		fill(this.head, n + 2, 'th', (i) => i === 0 ? 'Name' : i === n + 1 ? 'Waited' : clock((first + i - 1) * step).slice(0, 5));
		while (this.body.children.length > shown.length) this.body.lastChild.remove();
		shown.forEach((name, row) => this.row(row, name, n, (i) => Math.min(step, now - (first + i) * step)));
		if (this.width !== width) this.head.closest('div').scrollLeft = 1e6; // scroll to the right, where the newest columns are
		this.width = width;
	}

	// sums returns, for each name with waiters, how many milliseconds all its waiters together have
	// waited in each column.
	sums(filter, step, first, last, now) {
		const names = new Map(), fits = new Map();
		for (const s of this.known.spans.values()) {
			if (s.what !== 'wait') continue;
			const from = Math.max(s.from - this.known.ahead, first * step), to = Math.min(s.to ? s.to - this.known.ahead : now, now);
			if (to <= from) continue;
			const key = this.known.key(s.store, s.name);
			if (!fits.has(key)) fits.set(key, matches([s.name, s.store].map(plain).join('\n').toLowerCase(), filter));
			if (!fits.get(key)) continue;
			let name = names.get(key);
			if (!name) names.set(key, name = { key, name: s.name, all: 0, sums: new Float64Array(last - first + 1) });
			name.all += to - from;
			for (let c = Math.floor(from / step); c <= last && c * step < to; c++) {
				name.sums[c - first] += Math.min(to, (c + 1) * step) - Math.max(from, c * step);
			}
		}
		return [...names.values()];
	}

	row(i, name, n, elapsed) {
		let row = this.body.children[i];
		if (!row) {
			row = this.body.appendChild(make('tr'));
			const button = row.appendChild(make('th')).appendChild(make('button'));
			row.firstChild.scope = 'row';
			button.addEventListener('click', () => this.open(button.dataset.key, button));
		}
		const button = row.firstChild.firstChild;
		button.dataset.key = name.key;
		set(button, plain(name.name));
		fill(row, n + 2, 'td', (c) => c === 0 ? undefined : c === n + 1 ? long(name.all) : count(name.sums[c - 1] / elapsed(c - 1)));
		for (let c = 0; c < n; c++) {
			const mean = name.sums[c] / elapsed(c), level = mean > 0 ? 'h' + steps.filter((s) => mean >= s).length : '';
			if (row.children[c + 1].className !== level) row.children[c + 1].className = level;
		}
		if (row.lastChild.className) row.lastChild.className = ''; // it was a column
	}
}

// count returns the average number of waiters as text.
const count = (mean) => mean <= 0 ? '' : mean < 0.1 ? '·' : mean < 9.95 ? String(Math.round(mean * 10) / 10) : String(Math.round(mean));

// fill gives a row n cells with texts. It does not change a cell whose text is undefined.
function fill(row, n, tag, text) {
	while (row.children.length > n) row.lastChild.remove();
	for (let i = 0; i < n; i++) {
		const cell = row.children[i] ?? row.appendChild(make(tag)), t = text(i);
		if (tag === 'th' && !cell.scope) cell.scope = 'col';
		if (t !== undefined) set(cell, t);
	}
}
