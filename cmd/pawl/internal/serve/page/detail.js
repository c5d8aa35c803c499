// SPDX-License-Identifier: Apache-2.0
import { clock, kind, long, make, plain, set, who } from './text.js';

const words = {
	held: 'holds it', overdue: 'holds it, not renewed in time', ended: 'held it', expired: 'held it until it expired',
	waiting: 'waits', granted: 'waited, and got it', left: 'waited, and left',
};
const most = 200;

// Detail shows the history of a name as text.
export class Detail {
	// ask asks the server to break a lease.
	constructor(known, section, ask) {
		Object.assign(this, { known, section, ask, key: null });
		document.getElementById('break').addEventListener('submit', (e) => {
			e.preventDefault();
			this.breakLease();
		});
		document.getElementById('close').addEventListener('click', () => this.close());
		section.addEventListener('keydown', (e) => { if (e.key === 'Escape') this.close(); });
	}

	open(key, from) {
		Object.assign(this, { key, from });
		this.section.hidden = false;
		document.getElementById('break').reset();
		set(document.getElementById('broken'), '');
		this.show();
		this.section.focus();
	}

	close() {
		this.section.hidden = true;
		this.key = null;
		if (this.from?.isConnected) this.from.focus();
	}

	show() {
		if (!this.key) return;
		const [store, name] = split(this.key), now = this.known.now();
		const l = this.known.locks.get(this.key);
		set(document.getElementById('detail-name'), plain(name));
		set(document.getElementById('detail-now'), [
			`In ${plain(store)}.`,
			...(l?.holders ?? []).map((h) => `Held by ${who(h)}, ${kind(h)}, lease ${plain(h.lease)}.`),
			l?.holders.length ? '' : 'Nobody holds it.',
			...(l?.waiters ?? []).slice(0, 20).map((w, i) => `Waiting, ${i + 1}: ${who(w)}${w.why ? ', ' + plain(w.why) : ''}.`),
		].filter(Boolean).join('\n'));
		this.showBreak(l?.holders ?? []);
		const spans = [...this.known.spans.values()].filter((s) => s.store === store && s.name === name)
			.sort((a, b) => b.from - a.from || b.id - a.id).slice(0, most);
		const body = document.getElementById('spans');
		while (body.children.length > spans.length) body.lastChild.remove();
		spans.forEach((s, i) => {
			const row = body.children[i] ?? body.appendChild(make('tr'));
			[clock(s.from), words[s.state] ?? s.state, plain(s.person), long((s.to || now) - s.from), s.token ? String(s.token) : '', plain(s.why)]
				.forEach((text, j) => set(row.children[j] ?? row.appendChild(make('td')), text));
			row.className = s.state;
		});
	}

	// showBreak lets the user choose a lease to break, if the server allows that.
	showBreak(holders) {
		const select = document.getElementById('break-lease');
		document.getElementById('break').hidden = !this.known.mayBreak || !holders.length && !document.getElementById('broken').textContent;
		if ([...select.options].map((o) => o.value).join() === holders.map((h) => h.lease).join()) return;
		const looked = select.value, first = !select.dataset.key || select.dataset.key !== this.key;
		select.dataset.key = this.key;
		select.replaceChildren(...holders.map((h) => Object.assign(make('option', who(h)), { value: h.lease })));
		if (!first) select.value = looked; // nothing is selected if that lease is gone, so that no other is broken instead
	}

	async breakLease() {
		const [store, name] = split(this.key), said = document.getElementById('broken');
		if (document.getElementById('break-name').value !== plain(name)) {
			set(said, 'That is another name.');
			return;
		}
		set(said, 'The holder is being told …');
		try {
			const answer = await this.ask({ store, name, lease: document.getElementById('break-lease').value, why: document.getElementById('break-why').value });
			set(said, answer.ok ? 'Broken.' : plain((await answer.text()).trim()));
		} catch (e) {
			set(said, `Nobody knows whether it was broken: ${e.message}`);
		}
	}
}

// split splits a key into URL and name at the first line feed: a URL has none, but a name may.
function split(key) {
	const i = key.indexOf('\n');
	return [key.slice(0, i), key.slice(i + 1)];
}
