// SPDX-License-Identifier: Apache-2.0
import { clock, long, make, plain, set, who } from './text.js';
import { Table, matches } from './table.js';
import { Timeline } from './timeline.js';
import { Detail } from './detail.js';
import { Graph } from './graph.js';
import { Heat } from './heat.js';

const $ = (id) => document.getElementById(id);

// known is what the server has told: locks by store and name, spans by id, stores by name.
const known = {
	locks: new Map(), spans: new Map(), stores: new Map(),
	ahead: 0, // how far the server's clock is ahead of ours
	now() { return Date.now() + this.ahead; },
	key: (store, name) => store + '\n' + name,
};
const mostSpans = 20000;

function take(m) {
	if (m.all) {
		known.locks.clear();
		known.spans.clear();
		known.stores.clear();
		known.mayBreak = !!m.break;
	}
	known.ahead = m.now - Date.now();
	for (const s of m.stores) {
		known.stores.set(s.store, s);
		for (const name of s.gone ?? []) known.locks.delete(known.key(s.store, name));
		for (const l of s.locks ?? []) {
			const key = known.key(s.store, l.name);
			const overdue = known.locks.get(key)?.overdue ?? new Set();
			known.locks.set(key, { ...l, key, store: s.store, overdue });
		}
	}
	for (const s of m.spans ?? []) {
		known.spans.set(s.id, s);
		const l = known.locks.get(known.key(s.store, s.name));
		if (s.state === 'overdue') l?.overdue.add(s.id);
		else l?.overdue.delete(s.id);
	}
	for (const id of known.spans.keys()) { // the oldest come first
		if (known.spans.size <= mostSpans) break;
		if (known.spans.get(id).to) known.spans.delete(id);
	}
	$('main').hidden = false;
	showSoon();
}

// showSoon shows the news after a moment, together with further news.
let soon;
function showSoon() {
	soon ??= setTimeout(show, 50);
}

function showStores() {
	const list = $('stores');
	while (list.children.length > known.stores.size) list.lastChild.remove();
	let i = 0, waiters = 0;
	for (const l of known.locks.values()) waiters += l.waiters.length;
	for (const s of known.stores.values()) {
		const item = list.children[i++] ?? list.appendChild(make('li'));
		const bad = s.partly ? `cannot be read in full: ${s.error}` : s.error ? `does not answer${s.asked ? ' since ' + clock(Date.parse(s.asked)) : ''}: ${s.error}` :
			s.state?.closed ? `quarantine, until ${clock(Date.parse(s.state.closed_until))}: ${s.state.closed_because ?? ''}` : '';
		set(item, plain(s.store) + (bad ? ' ' + plain(bad) : s.asked ? '' : ' not asked yet'));
		item.className = s.error ? 'bad' : bad ? 'shut' : '';
	}
	const often = [...known.stores.values()].flatMap((s) => Object.entries(s.often ?? {}).map(([name, n]) => `${plain(name)} (${n} leases in 10s)`)).sort();
	set($('often'), often.length ? `Changes hands often: ${often.slice(0, 10).join(', ')}${often.length > 10 ? ` and ${often.length - 10} more` : ''}` : '');
	set($('counts'), `${known.locks.size} ${known.locks.size === 1 ? 'name' : 'names'}, ${waiters} ${waiters === 1 ? 'waiter' : 'waiters'}`);
}

const detail = new Detail(known, $('detail'), (body) => fetch('api/break', {
	method: 'POST', headers: { ...credentials(), 'Content-Type': 'application/json' }, body: JSON.stringify(body),
}));
const table = new Table(known, (key, from) => detail.open(key, from));
const timeline = new Timeline(known, $('timeline'), $('tip'), (key) => detail.open(key, null));

const graph = new Graph(known, $('waiting'));
const heat = new Heat(known, $('heat'), (key, from) => detail.open(key, from));

let next;
function show() {
	clearTimeout(soon);
	clearTimeout(next);
	soon = undefined;
	next = setTimeout(() => document.hidden || show(), 1000); // because ages grow
	showStores();
	const width = $('span').value * 60000, rows = table.show($('filter').value, $('waited').checked);
	const free = $('waited').checked ? [] : past(width, $('filter').value);
	if (!$('still').checked) {
		timeline.show([...rows.slice(0, 200), ...free], width);
		heat.show($('filter').value, width);
	}
	showPast(free);
	showLongest();
	graph.show();
	detail.show();
}

// showLongest names the waiter that has waited longest, in all stores.
function showLongest() {
	const now = known.now(), first = table.longest(now), line = $('longest');
	line.hidden = !first;
	if (!first) return;
	const waiter = first.waiters.reduce((a, b) => Date.parse(b.since) < Date.parse(a.since) ? b : a);
	const [by, button, whom] = line.children;
	set(by, `Waits longest, for ${long(first.waitsFor(now))}: ${who(waiter)}, for`);
	set(button, plain(first.name));
	set(whom, first.holders[0] ? `held by ${who(first.holders[0])}` : 'held by nobody');
	button.onclick = () => detail.open(first.key, button);
}

// past returns the names that nobody holds now, but that somebody held within the last
// width milliseconds, the latest first.
function past(width, filter) {
	const names = new Map(), begin = known.now() - width;
	for (const s of known.spans.values()) {
		const key = known.key(s.store, s.name);
		if (s.what !== 'lease' || s.to < begin || known.locks.has(key)) continue;
		if (!matches([s.name, s.store, s.person, s.why].map(plain).join('\n').toLowerCase(), filter)) continue;
		names.set(key, { key, store: s.store, name: s.name, to: Math.max(s.to, names.get(key)?.to ?? 0) });
	}
	return [...names.values()].sort((a, b) => b.to - a.to).slice(0, 50);
}

function showPast(free) {
	const list = $('past');
	while (list.children.length > free.length) list.lastChild.remove();
	free.forEach((l, i) => {
		if (!list.children[i]) {
			const button = list.appendChild(make('li')).appendChild(make('button'));
			button.addEventListener('click', () => detail.open(button.dataset.key, button));
		}
		const button = list.children[i].firstChild;
		button.dataset.key = l.key;
		set(button, plain(l.name));
	});
	$('past-head').hidden = !free.length;
}

$('filter').addEventListener('input', show);
for (const id of ['waited', 'span', 'still']) $(id).addEventListener('change', show);
addEventListener('resize', () => timeline.draw());
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.draw());
document.addEventListener('visibilitychange', () => { if (!$('main').hidden) show(); });

// The stream.

let token = sessionStorage.getItem('token') ?? '';
const credentials = () => token ? { Authorization: `Bearer ${token}` } : {};
const tell = (text, bad) => { set($('status'), text); $('status').className = bad ? 'bad' : ''; };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const silence = 20000; // the server says every five seconds that it is alive

async function follow() {
	for (let wait = 500; ; wait = Math.min(2 * wait, 8000)) {
		const stop = new AbortController();
		let timer;
		const alive = () => { clearTimeout(timer); timer = setTimeout(() => stop.abort(new Error('no word from it')), silence); };
		try {
			alive();
			const answer = await fetch('api/events', { headers: credentials(), cache: 'no-store', signal: stop.signal });
			if (answer.status === 401) {
				await ask(token ? 'Another token is needed.' : 'A token is needed.');
				wait = 250;
				continue;
			}
			if (!answer.ok) throw new Error(plain(await answer.text()));
			tell('Live');
			wait = 250;
			await read(answer.body, alive);
			tell('The server has ended the connection; trying again …', true);
		} catch (e) {
			tell(`Not live since ${clock(Date.now())}: ${e.message}; trying again …`, true);
		} finally {
			clearTimeout(timer);
			stop.abort();
		}
		await sleep(wait);
	}
}

async function read(body, alive) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	for (let parts = []; ;) {
		const { value, done } = await reader.read();
		if (done) return;
		alive();
		const lines = value.split('\n');
		parts.push(lines.shift());
		for (const next of lines) {
			const line = parts.join('');
			parts = [next];
			if (line.startsWith('data: ')) take(JSON.parse(line.slice(6)));
		}
	}
}

// ask waits until somebody has entered a token.
function ask(text) {
	tell(text, true);
	$('entry').hidden = false;
	$('main').hidden = true;
	$('token').focus();
	return new Promise((done) => {
		$('entry').addEventListener('submit', (e) => {
			e.preventDefault();
			token = $('token').value.trim();
			sessionStorage.setItem('token', token);
			$('token').value = '';
			$('entry').hidden = true;
			done();
		}, { once: true });
	});
}

follow();
