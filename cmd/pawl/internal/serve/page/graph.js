// SPDX-License-Identifier: Apache-2.0
import { make, plain, set, who } from './text.js';

const most = 200; // waits: a picture of more would be unreadable
const across = 190, down = 44, box = { w: 140, h: 28 };

function draw(tag, attributes, text) {
	const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
	for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
	if (text !== undefined) e.textContent = text;
	return e;
}

// Graph shows who waits for what: an arrow goes from the lock that a waiter holds to the lock for
// which it waits. The arrows of a deadlock are red.
export class Graph {
	constructor(known, section) { Object.assign(this, { known, section, shown: '' }); }

	show() {
		const edges = this.edges();
		const text = JSON.stringify(edges);
		if (text === this.shown) return;
		this.shown = text;
		this.section.hidden = !edges.length;
		this.list(edges);
		this.picture(edges);
	}

	edges() {
		const edges = [], dead = this.deadlocks();
		for (const l of this.known.locks.values()) {
			for (const w of l.waiters) {
				for (const h of w.holds ?? []) {
					const from = this.known.key(l.store, h.name), held = this.known.locks.get(from);
					if (!held?.holders.some((x) => x.lease === h.lease)) continue;
					edges.push({ from, to: l.key, held: plain(h.name), name: plain(l.name), whose: who(w), dead: dead.has(from + '\n' + l.key) });
				}
			}
		}
		return edges.sort((a, b) => b.dead - a.dead || (a.from + a.to < b.from + b.to ? -1 : 1)).slice(0, most);
	}

	// deadlocks returns the arrows that belong to a deadlock.
	deadlocks() {
		const dead = new Set();
		for (const s of this.known.stores.values()) {
			for (const cycle of s.deadlocks ?? []) {
				cycle.forEach((name, i) => dead.add(this.known.key(s.store, name) + '\n' + this.known.key(s.store, cycle[(i + 1) % cycle.length])));
			}
		}
		return dead;
	}

	list(edges) {
		const n = edges.filter((e) => e.dead).length;
		set(document.getElementById('deadlock'), n ? `Deadlock: ${n} waiters wait for each other, for ever. Break a lease of each cycle.` : '');
		document.getElementById('waits').replaceChildren(...edges.map((e) =>
			make('li', `${e.whose} holds ${e.held} and waits for ${e.name}`, e.dead ? 'bad' : '')));
	}

	picture(edges) {
		const at = place(edges), svg = document.getElementById('graph');
		const right = Math.max(0, ...[...at.values()].map((p) => p.x)), low = Math.max(0, ...[...at.values()].map((p) => p.y));
		const w = right + box.w + 8, h = low + box.h + 30;
		for (const [name, value] of Object.entries({ viewBox: `0 0 ${w} ${h}`, width: w, height: h })) svg.setAttribute(name, value);
		const parts = [...svg.querySelectorAll('defs')];
		for (const e of edges) parts.push(arrow(at.get(e.from), at.get(e.to), e.dead));
		for (const [key, p] of at) {
			const dead = edges.some((e) => e.dead && (e.from === key || e.to === key));
			const name = plain(key.slice(key.indexOf('\n') + 1)), short = [...name].length > 15 ? [...name].slice(0, 14).join('') + '…' : name;
			const g = draw('g', { class: dead ? 'dead' : '' });
			g.append(draw('rect', { x: p.x, y: p.y, width: box.w, height: box.h, rx: 5 }), draw('text', { x: p.x + 8, y: p.y + 19 }, short), draw('title', {}, name));
			parts.push(g);
		}
		svg.replaceChildren(...parts);
	}
}

// place gives each lock a column to the right of the locks from which arrows lead to it, and its own row there.
function place(edges) {
	const next = new Map(), column = new Map(), rows = new Map(), at = new Map();
	for (const e of edges) next.set(e.from, [...(next.get(e.from) ?? []), e.to]);
	const roots = [...next.keys()].filter((k) => !edges.some((e) => e.to === k));
	for (const root of [...roots, ...next.keys()]) { // an isolated deadlock has no root
		if (column.has(root)) continue;
		column.set(root, 0);
		for (const queue = [root]; queue.length;) {
			const key = queue.shift();
			for (const k of next.get(key) ?? []) {
				if (column.has(k)) continue;
				column.set(k, column.get(key) + 1);
				queue.push(k);
			}
		}
	}
	for (const [key, c] of column) {
		const row = rows.get(c) ?? 0;
		rows.set(c, row + 1);
		at.set(key, { x: 4 + c * across, y: 4 + row * down });
	}
	return at;
}

// arrow draws an arrow: straight to the right, or back to the left below the boxes.
function arrow(a, b, dead) {
	const mid = box.h / 2, end = dead ? 'url(#tip-dead)' : 'url(#tip-wait)';
	const d = b.x > a.x ? `M${a.x + box.w} ${a.y + mid}L${b.x - 2} ${b.y + mid}` :
		`M${a.x + box.w / 2} ${a.y + box.h}C${a.x + box.w / 2} ${a.y + box.h + 26} ${b.x + box.w / 2} ${b.y + box.h + 26} ${b.x + box.w / 2} ${b.y + box.h + 2}`;
	return draw('path', { d, class: dead ? 'dead' : '', 'marker-end': end });
}
