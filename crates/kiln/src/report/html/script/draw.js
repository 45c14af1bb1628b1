// Drawing: SVG elements, scales, ticks and units. Text from the study only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";

function add(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function html(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

// An empty drawing of the figure's width; a figure wider than its place scrolls by itself.
function canvas(figure, height, width) {
  figure.replaceChildren();
  // Windows are of no width at all for a moment while they are made or pictured.
  width = Math.max(width || 0, figure.clientWidth, 160);
  const root = add(figure, "svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": figure.dataset.label,
  });
  return { root, width, height };
}

function linear(low, high, from, to) {
  const span = high - low || 1;
  const scale = (value) => from + ((value - low) / span) * (to - from);
  scale.low = low; scale.high = high;
  return scale;
}

function logarithmic(low, high, from, to) {
  const scale = (value) => from + (Math.log(value / low) / (Math.log(high / low) || 1)) * (to - from);
  scale.low = low; scale.high = high;
  return scale;
}

// Round numbers from low to high, about as many as asked for.
function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((s) => s * power >= rough) * power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) && found.length < 50; i++) found.push(i * step);
  return found;
}

// The same for a logarithmic scale: 1, 2, 5 over decades, plain steps within one.
function logTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) {
    const found = ticks(low, high, wanted);
    return found.length > 1 ? found : ticks(low, high, 2 * wanted);
  }
  const steps = decades > wanted ? [1] : decades > wanted / 2.5 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  const every = Math.ceil(found.length / (wanted * 1.6));
  return found.filter((_, i) => i % every === 0);
}

const NS_UNITS = [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]];

// A time with a fitting unit: 3 digits, 4 when the first is a 1.
function humanNs(ns) {
  for (let i = 0; i < NS_UNITS.length; i++) {
    const [unit, size] = NS_UNITS[i];
    const value = ns / size;
    const text = value.toPrecision(/^1/.test(value.toExponential(2)) ? 4 : 3);
    if (Math.abs(Number(text)) < 1000 || i === NS_UNITS.length - 1)
      return `${/e/.test(text) ? Math.round(value) : text} ${unit}`;
  }
}

// Tick labels share a unit, so that they line up.
function nsLabels(values) {
  const largest = Math.max(...values.map(Math.abs), 1e-9);
  const [unit, size] = [...NS_UNITS].reverse().find(([, s]) => largest >= s) || NS_UNITS[0];
  return values.map((value) => `${Number((value / size).toPrecision(6))} ${unit}`);
}

function humanMs(ms) {
  if (ms < 120e3) return `${Math.round(ms / 1e3)} s`;
  return ms < 7200e3 ? `${Math.round(ms / 60e3)} min` : `${(ms / 3600e3).toFixed(1)} h`;
}

function humanRate(perSecond, unit) {
  const [prefix, size] = [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6], ["", 1]].find(([, s]) => perSecond >= s) || ["", 1];
  return `${Number((perSecond / size).toPrecision(3))} ${prefix}${unit}`;
}

// Horizontal lines with labels at the left.
function leftAxis(root, scale, values, labels, left, right) {
  values.forEach((value, i) => {
    const y = scale(value);
    add(root, "line", { class: "grid", x1: left, x2: right, y1: y, y2: y });
    add(root, "text", { class: "tick", x: left - 8, y: y + 4, "text-anchor": "end" }, labels[i]);
  });
}

function bottomAxis(root, scale, values, labels, y, top) {
  values.forEach((value, i) => {
    const x = scale(value);
    add(root, "line", { class: top === undefined ? "axis" : "grid", x1: x, x2: x, y1: top === undefined ? y : top, y2: y + 4 });
    add(root, "text", { class: "tick", x, y: y + 17, "text-anchor": "middle" }, labels[i]);
  });
}

// One path for many marks: a browser draws thousands of them at once. The shape says how a trial ended.
const MARKS = [
  (x, y) => `M${x} ${y}h.01`,
  (x, y) => `M${x - 3.5} ${y - 3.5}l7 7m0-7l-7 7`,
  (x, y) => `M${x} ${y - 4.5}l4.5 8h-9z`,
  (x, y) => `M${x - 3.5} ${y - 3.5}h7v7h-7z`,
  (x, y) => `M${x} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5-4.5z`,
  (x, y) => `M${x - 4.5} ${y - 1.5}h9v3h-9z`,
];

const short = (value) => Math.round(value * 10) / 10;

// Smaller where there are more of them.
function dotSize(count, usual) {
  return usual * (count > 2000 ? 0.4 : count > 600 ? 0.6 : count > 150 ? 0.8 : 1);
}

function marks(root, kind, points) {
  let path = "";
  for (const [x, y] of points) path += MARKS[kind](short(x), short(y));
  return add(root, "path", { class: `mark kind-${kind}`, d: path });
}

// The same spread for the same trial in every plot and every drawing.
function spread(number) {
  let hash = Math.imul(number ^ 0x9e3779b9, 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32 - 0.5;
}
