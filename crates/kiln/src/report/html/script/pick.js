// Picking a trial with a pointer, a finger or the arrow keys; all plots show the same one.

let study;
const plots = [];
const picked = { index: -1, scrolled: 0 };
const tip = document.getElementById("tip");

const NUMBER = 0, KIND = 1, NS = 2, ENDED = 3, CONFIG = 4, SAID = 5;

function place(x, y) {
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth - 8 ? x - 16 - box.width : x + 16;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, Math.min(y + 12, innerHeight - box.height - 8))}px`;
}

function describe(index) {
  const trial = study.trials[index];
  tip.replaceChildren();
  const title = html(tip, "p", "what");
  html(title, "b", "", `Trial ${trial[NUMBER]}`);
  if (trial[NUMBER] === study.winner) html(title, "span", "", " · the winner");
  if (trial[NS] === null) html(tip, "p", "", `${study.kinds[trial[KIND]]}: ${trial[SAID]}`);
  else {
    const base = study.search_baseline_ns;
    const times = base ? ` · ${(base / trial[NS]).toFixed(2)}x` : "";
    html(tip, "p", "", `${humanNs(trial[NS])}${times} · median of ${trial[SAID]}`);
  }
  const list = html(tip, "dl", "");
  study.tunables.forEach((tunable, i) => {
    if (trial[CONFIG][i] === null) return;
    const row = html(list, "div", "");
    html(row, "dt", "", tunable.name);
    html(row, "dd", "", tunable.values[trial[CONFIG][i]]);
  });
}

function pick(index, x, y) {
  picked.index = index;
  picked.scrolled = scrollY;
  for (const plot of plots) plot.highlight(index);
  if (index < 0) { tip.hidden = true; return; }
  describe(index);
  tip.hidden = false;
  place(x, y);
}

// A plot says which trial is at a point, where a trial is, and how to mark it.
function pickable(figure, root, plot) {
  plots.push(plot);
  root.setAttribute("tabindex", "0");
  const at = (event) => {
    const box = root.getBoundingClientRect();
    const index = plot.nearest(event.clientX - box.left, event.clientY - box.top);
    pick(index, event.clientX, event.clientY);
  };
  root.addEventListener("pointermove", at);
  root.addEventListener("pointerdown", at);
  root.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") pick(-1); });
  root.addEventListener("blur", () => pick(-1));
  root.addEventListener("keydown", (event) => {
    const order = plot.order();
    if (!order.length) return;
    const now = order.indexOf(picked.index);
    const next = { ArrowRight: now + 1, ArrowLeft: now < 0 ? order.length - 1 : now - 1, Home: 0, End: order.length - 1 }[event.key];
    if (event.key === "Escape") pick(-1);
    if (next === undefined) return;
    event.preventDefault();
    const index = order[Math.max(0, Math.min(order.length - 1, next))];
    const box = root.getBoundingClientRect();
    const [x, y] = plot.position(index);
    pick(index, box.left + x, box.top + y);
  });
}

// The nearest of many points within reach.
function nearestPoint(points, x, y, reach) {
  let best = -1, distance = reach * reach;
  for (let i = 0; i < points.length; i++) {
    const dx = points[i][0] - x, dy = points[i][1] - y;
    const d = dx * dx + dy * dy;
    if (d < distance) { distance = d; best = i; }
  }
  return best;
}
