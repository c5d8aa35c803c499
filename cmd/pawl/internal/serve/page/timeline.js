// SPDX-License-Identifier: Apache-2.0
import { clock, long, plain } from './text.js';

const lane = 34, bar = 14, top = 20; // heights

// hue returns the colour of a host. It is always the same, and between green and violet, because red and yellow mean trouble.
export function hue(host) {
	let h = 2166136261;
	for (const c of host ?? '') h = Math.imul(h ^ c.codePointAt(0), 16777619);
	h = Math.imul(h ^ h >>> 16, 0x45d9f3b); // so that names that differ only at the end get different colours
	return 130 + ((h ^ h >>> 16) >>> 0) % 160;
}

// Timeline draws a lane for each name, with leases as bars and waits as lines below them.
export class Timeline {
	constructor(known, canvas, tip, open) {
		Object.assign(this, { known, canvas, tip, open, lanes: [], width: 600000, drawn: [] });
		canvas.addEventListener('mousemove', (e) => this.point(e));
		canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
		canvas.addEventListener('click', (e) => {
			const l = this.lanes[Math.floor((e.offsetY - top) / lane)];
			if (l) open(l.key);
		});
	}

	// show shows locks for the last width milliseconds.
	show(locks, width) {
		this.lanes = locks;
		this.width = width;
		this.until = this.known.now();
		this.draw();
	}

	draw() {
		if (!this.until) return;
		const { canvas } = this, ratio = devicePixelRatio || 1;
		const w = this.w = canvas.clientWidth, h = top + Math.max(1, this.lanes.length) * lane;
		if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
			canvas.width = Math.round(w * ratio);
			canvas.height = Math.round(h * ratio);
			canvas.style.height = h + 'px';
		}
		const style = getComputedStyle(canvas);
		this.colour = (name) => style.getPropertyValue('--' + name);
		const c = this.c = canvas.getContext('2d');
		c.setTransform(ratio, 0, 0, ratio, 0, 0);
		c.clearRect(0, 0, w, h);
		c.font = `12px ${style.fontFamily}`;
		this.drawn = [];
		this.axis(h);
		const at = new Map(this.lanes.map((l, i) => [l.key, top + i * lane]));
		const waits = new Map(); // number of lines in each lane
		const rows = new Map();  // for each lane, when each row becomes free
		for (const s of this.known.spans.values()) {
			if (s.what === 'quarantine') this.quarantine(s, h);
		}
		for (const s of this.known.spans.values()) {
			if (s.to && s.to < this.until - this.width) continue;
			const y = at.get(this.known.key(s.store, s.name));
			if (y === undefined) continue;
			if (s.what === 'lease') this.lease(s, y + 14, rows, y);
			else this.wait(s, y + 14 + bar + 1.5, waits, y);
		}
		this.lanes.forEach((l, i) => this.label(plain(l.name), top + i * lane));
	}

	x(t) { return this.w * (1 - (this.until - t) / this.width); }

	// place returns the horizontal position and the width of a span.
	place(s, begin = s.from) {
		const from = Math.max(-2, this.x(begin)), to = Math.min(this.w, this.x(s.to || this.until));
		return [from, Math.max(to - from, 2)];
	}

	axis(h) {
		const { c, w } = this;
		const step = [10, 30, 60, 300, 600, 3600, 7200].map((s) => 1000 * s).find((s) => w * s / this.width > 80) ?? 14400000;
		c.strokeStyle = this.colour('line');
		c.fillStyle = this.colour('dim');
		c.lineWidth = 1;
		for (let t = Math.ceil((this.until - this.width) / step) * step; t < this.until; t += step) {
			const x = Math.round(this.x(t)) + 0.5;
			c.beginPath();
			c.moveTo(x, 14);
			c.lineTo(x, h);
			c.stroke();
			const text = clock(t - this.known.ahead);
			c.fillText(text, Math.min(x + 3, w - c.measureText(text).width), 11);
		}
		this.lanes.forEach((_, i) => {
			c.beginPath();
			c.moveTo(0, top + (i + 1) * lane - 0.5);
			c.lineTo(w, top + (i + 1) * lane - 0.5);
			c.stroke();
		});
	}

	label(name, y) {
		const { c } = this;
		c.save();
		c.beginPath();
		c.rect(0, y, this.w, lane);
		c.clip();
		c.fillStyle = this.colour('back');
		c.fillRect(0, y + 1, Math.min(c.measureText(name).width + 6, this.w), 12);
		c.fillStyle = this.colour('text');
		c.fillText(name, 2, y + 11);
		c.restore();
	}

	lease(s, y, rows, key) {
		const { c } = this, [x, w] = this.place(s), dark = this.colour('dark') === '1';
		let height = bar;
		if (s.kind !== 'exclusive') { // draw up to three leases that are held together in separate rows
			const ends = rows.get(key) ?? [0, 0, 0], row = Math.max(0, ends.findIndex((end) => end <= s.from));
			ends[row] = s.to || Infinity;
			rows.set(key, ends);
			height = bar / 3 - 0.5;
			y += row * bar / 3;
		}
		const h = hue(s.host || s.person);
		c.fillStyle = dark ? `hsl(${h} 45% 32%)` : `hsl(${h} 60% 80%)`;
		c.fillRect(x, y, w, height);
		if (s.late) this.late(s, y, height);
		c.fillStyle = dark ? `hsl(${h} 50% 55%)` : `hsl(${h} 55% 38%)`;
		if (w > 4) c.fillRect(x, y, 2, height);
		this.drawn.push({ s, x, y, w, h: height });
		const text = (s.token ? `${s.token} ` : '') + plain(s.host || s.person), room = w - 8;
		if (room < 12 || height < bar) return;
		c.save();
		c.beginPath();
		c.rect(x, y, w, bar);
		c.clip();
		c.fillStyle = this.colour('text');
		c.fillText(text, Math.max(x, 0) + 5, y + bar - 3);
		c.restore();
	}

	// late draws the part of a lease in which it was overdue.
	late(s, y, height) {
		const { c } = this, [x, w] = this.place(s, s.late), state = s.state === 'expired' ? 'expired' : 'overdue';
		c.fillStyle = this.colour(state);
		c.fillRect(x, y, w, height);
		c.fillStyle = this.colour('on-' + state);
		if (state === 'expired' && w > 12 && height === bar) c.fillText('✕', x + w - 12, y + bar - 3);
	}

	wait(s, y, waits, key) {
		const n = waits.get(key) ?? 0;
		waits.set(key, n + 1);
		const { c } = this, [x, w] = this.place(s), line = y + (n % 2) * 2; // two rows fit
		c.fillStyle = this.colour('wait');
		c.fillRect(x, line, w, 1.2);
		if (s.state === 'granted') {
			c.beginPath();
			c.arc(x + w, line, 2.5, 0, 7);
			c.fill();
		}
		this.drawn.push({ s, x, y: line - 1.5, w, h: 4 });
	}

	quarantine(s, h) {
		const { c } = this, [x, w] = this.place(s);
		c.save();
		c.beginPath();
		this.lanes.forEach((l, i) => { if (l.store === s.store) c.rect(x, top + i * lane, w, lane); });
		c.clip();
		c.strokeStyle = this.colour('quarantine');
		c.lineWidth = 1;
		c.beginPath();
		for (let at = x - h; at < x + w; at += 8) {
			c.moveTo(at, h);
			c.lineTo(at + h, 0);
		}
		c.stroke();
		c.restore();
	}

	// point shows what is under the mouse.
	point(e) {
		const hit = this.drawn.findLast((d) => e.offsetX >= d.x - 1 && e.offsetX <= d.x + d.w + 1 && e.offsetY >= d.y && e.offsetY <= d.y + d.h);
		this.tip.hidden = !hit;
		if (!hit) return;
		const { s } = hit;
		this.tip.textContent = [
			`${plain(s.name)}: ${s.what}, ${s.state}`, plain(s.person), s.kind, s.why && plain(s.why), s.token && `token ${s.token}`,
			`since ${clock(s.from - this.known.ahead)}, for ${long((s.to || this.known.now()) - s.from)}`,
		].filter(Boolean).join('\n');
		this.tip.style.left = Math.min(e.offsetX + 12, this.w - 200) + 'px';
		this.tip.style.top = e.offsetY + 16 + 'px';
	}
}
