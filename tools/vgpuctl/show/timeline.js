// SPDX-License-Identifier: MIT
// Draws the spans [from, to, vf, kind, part of the time], in ms, that lie between FROM and TO.
const canvas = document.getElementById('timeline'), tip = document.getElementById('tip'), pen = canvas.getContext('2d')
const left = 160, right = 10, row = 26, height = 8 + row * names.length + 30
let from = 0, to = span, grip = null

const width = () => canvas.clientWidth - left - right
const x = t => left + (t - from) / (to - from) * width()
const time = px => from + (px - left) / width() * (to - from)

// The distance of marks: 1, 2 or 5 times a power of ten, at most MOST of them.
function step(most) {
	for (let power = 1e-6; ; power *= 10)
		for (const part of [1, 2, 5])
			if ((to - from) / (power * part) <= most)
				return power * part
}

function draw() {
	const ratio = window.devicePixelRatio || 1
	canvas.style.height = height + 'px'
	canvas.width = canvas.clientWidth * ratio
	canvas.height = height * ratio
	pen.setTransform(ratio, 0, 0, ratio, 0, 0)
	pen.font = '12px sans-serif'
	pen.clearRect(0, 0, canvas.clientWidth, height)
	names.forEach((name, vf) => {
		pen.fillStyle = '#f0f0f0'
		pen.fillRect(left, 8 + vf * row, width(), 20)
		pen.fillStyle = '#000'
		pen.fillText(name, 4, 22 + vf * row, left - 8)
	})
	for (const [begin, end, vf, kind, part] of spans) {
		if (end < from || begin > to)
			continue
		const a = Math.max(x(begin), left), b = Math.min(x(end), left + width())
		pen.fillStyle = colours[kind]
		pen.fillRect(a, 28 + vf * row - 20 * part, Math.max(b - a, 0.5), 20 * part)
	}
	const distance = step(8)
	pen.fillStyle = '#000'
	pen.strokeStyle = '#999'
	for (let before = Math.ceil((span - to) / distance) * distance; before <= span - from; before += distance) {
		const at = x(span - before)
		pen.beginPath()
		pen.moveTo(at, 0)
		pen.lineTo(at, height - 26)
		pen.stroke()
		pen.fillText(before ? -Number(before.toPrecision(6)) + ' ms' : 'now', Math.min(at, left + width() - 40), height - 12)
	}
}

canvas.onwheel = event => {
	const at = time(event.offsetX), factor = event.deltaY > 0 ? 1.25 : 0.8
	event.preventDefault()
	from = Math.max(0, at - (at - from) * factor)
	to = Math.min(span, at + (to - at) * factor)
	draw()
}
canvas.onmousedown = event => { grip = time(event.offsetX) }
window.onmouseup = () => { grip = null }
canvas.onmousemove = event => {
	const at = time(event.offsetX), vf = Math.floor((event.offsetY - 8) / row)
	if (grip !== null) {
		const move = Math.max(-from, Math.min(span - to, grip - at))
		from += move
		to += move
		draw()
		return
	}
	const found = spans.find(s => s[2] === vf && s[0] <= at && at <= s[1])
	tip.textContent = found ? `${names[vf]}: ${kinds[found[3]]} for ${((found[1] - found[0]) * found[4]).toFixed(3)} ms, ` +
		`from ${(span - found[0]).toFixed(3)} ms ago` : '\u00a0'
}
canvas.ondblclick = () => { from = 0; to = span; draw() }
window.onresize = draw
draw()
