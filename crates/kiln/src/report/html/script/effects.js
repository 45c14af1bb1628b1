// A panel per tunable: trials as dots over its values, the median of each value as a bar.

function drawEffects(figure) {
  const tunables = study.by_effect.map((place) => [study.tunables[place], place]);
  if (!tunables.length) { figure.replaceChildren(); html(figure, "p", "", "Every trial had the same config."); return; }
  const room = figure.clientWidth;
  const columns = room < 560 ? 1 : room < 900 ? 2 : 3;
  const gap = 18, wide = (room - gap * (columns - 1)) / columns, tall = 178;
  const rows = Math.ceil(tunables.length / columns);
  const { root } = canvas(figure, rows * (tall + gap));
  const measured = study.trials.map((t, i) => i).filter((i) => study.trials[i][NS] !== null);
  const [low, high] = extremes(measured.map((i) => study.trials[i][NS]));
  const pad = (high / low) ** 0.06 * 1.005;
  const points = [];
  const winner = study.trials.find((t) => t[NUMBER] === study.winner);
  tunables.forEach(([tunable, place], n) => {
    const left = (n % columns) * (wide + gap), top = Math.floor(n / columns) * (tall + gap);
    panel(add(root, "g", { transform: `translate(${left} ${top})`, class: "panel" }), tunable, place);

    function panel(group, tunable, place) {
      const plotLeft = 54, plotRight = wide - 4, plotTop = 30, plotBottom = tall - 34;
      const y = logarithmic(low / pad, high * pad, plotBottom, plotTop);
      add(group, "text", { class: "panel-name", x: 0, y: 14 }, clipped(tunable.name, Math.floor(wide / 12)));
      const said = tunable.importance !== null ? `explains ${Math.round(100 * tunable.importance)} %`
        : tunable.spread ? `medians ${tunable.spread.toFixed(2)}x apart` : "";
      add(group, "text", { class: "tick", x: wide, y: 14, "text-anchor": "end" }, said);
      const values = logTicks(y.low, y.high, 3);
      leftAxis(group, y, values, nsLabels(values), plotLeft, plotRight);
      const slot = (plotRight - plotLeft) / tunable.values.length;
      const centre = (value) => plotLeft + (value + 0.5) * slot;
      const dots = measured.map((i) => {
        const t = study.trials[i];
        const value = t[CONFIG][place] ?? 0;
        return [centre(value) + spread(t[NUMBER] * 7 + place) * Math.min(slot * 0.7, 46), y(t[NS])];
      });
      marks(group, 0, dots).style.strokeWidth = dotSize(measured.length, 4.5);
      const every = Math.ceil((tunable.values.length * 34) / (plotRight - plotLeft));
      tunable.values.forEach((value, v) => {
        if (tunable.medians[v] !== null) {
          const half = Math.min(slot * 0.36, 26);
          add(group, "line", { class: "median", x1: centre(v) - half, x2: centre(v) + half, y1: y(tunable.medians[v]), y2: y(tunable.medians[v]) });
        }
        if (v % every) return;
        const won = winner && winner[CONFIG][place] === v ? " strong" : "";
        add(group, "text", { class: `tick${won}`, x: centre(v), y: tall - 18, "text-anchor": "middle" }, clipped(value, Math.max(3, Math.floor(slot * every / 7))));
        const failed = tunable.failed[v] ? ` ✕${tunable.failed[v]}` : "";
        const counts = [`${tunable.measured[v]}${failed}`, `${tunable.measured[v]}`].find((text) => text.length * 6.5 < slot * every);
        if (counts) add(group, "text", { class: "count", x: centre(v), y: tall - 5, "text-anchor": "middle" }, counts);
      });
      dots.forEach(([px, py], k) => points.push([px + left, py + top, measured[k]]));
    }
  });
  const ring = add(root, "g", {});
  pickable(figure, root, {
    nearest: (px, py) => {
      const found = nearestPoint(points, px, py, 16);
      return found < 0 ? -1 : points[found][2];
    },
    position: (i) => points.find((p) => p[2] === i) || [0, 0],
    order: () => measured,
    highlight: (i) => {
      ring.replaceChildren();
      if (i < 0) return;
      for (const [px, py, index] of points) if (index === i) add(ring, "circle", { class: "ring", cx: px, cy: py, r: 5 });
    },
  });
}
