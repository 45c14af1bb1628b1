// The device's ceilings, and where baseline, winner and floor stand below them.

function drawRoofline(figure) {
  const { peak_flops: peak, peak_bytes: bytes, intensity, points } = study.roofline;
  const narrow = figure.clientWidth < 560;
  const { root, width, height } = canvas(figure, narrow ? 300 : 360);
  const left = narrow ? 84 : 96, right = width - 14, top = 14, bottom = height - 42;
  const balance = peak / bytes;
  const x = logarithmic(Math.min(intensity, balance) / 8, Math.max(intensity, balance) * 8, left, right);
  const slowest = Math.min(...points.map((p) => p.flops_per_second), bytes * x.low);
  const y = logarithmic(slowest / 2, peak * 2, bottom, top);
  const rates = logTicks(y.low, y.high, narrow ? 5 : 7);
  leftAxis(root, y, rates, rates.map((v) => humanRate(v, "FLOP/s")), left, right);
  const steps = logTicks(x.low, x.high, narrow ? 4 : 7);
  bottomAxis(root, x, steps, steps.map((v) => String(Number(v.toPrecision(3)))), bottom);
  add(root, "text", { class: "label", x: right, y: height - 6, "text-anchor": "end" }, "FLOP per byte");
  add(root, "path", { class: "roof", d: `M${left} ${y(bytes * x.low)}L${x(balance)} ${y(peak)}H${right}` });
  add(root, "text", { class: "note", x: right - 2, y: y(peak) - 7, "text-anchor": "end" }, `arithmetic ${humanRate(peak, "FLOP/s")}`);
  const slopeAt = Math.sqrt(x.low * balance);
  add(root, "text", { class: "note", x: x(slopeAt) - 8, y: y(bytes * slopeAt) - 10, "text-anchor": x(slopeAt) < left + 130 ? "start" : "end" }, `memory ${humanRate(bytes, "B/s")}`);
  add(root, "line", { class: "baseline", x1: x(intensity), x2: x(intensity), y1: top, y2: bottom });
  const placed = [];
  points.forEach((point) => {
    const py = y(point.flops_per_second), px = x(intensity);
    const kind = point.name === "baseline" ? 3 : point.name === "floor" ? 5 : 0;
    const mark = marks(root, kind, [[px, py]]);
    mark.setAttribute("class", `mark roof-${kind}`);
    // Beside the mark, but not on the roof.
    let line = Math.abs(py - y(peak)) < 8 ? py + 19 : py + 4;
    while (placed.some((other) => Math.abs(other - line) < 15)) line += 15;
    placed.push(line);
    const flip = px > width - 190;
    add(root, "text", { class: "note strong", x: flip ? px - 12 : px + 12, y: line, "text-anchor": flip ? "end" : "start" },
      narrow ? `${point.name} ${humanNs(point.ns)}` : `${point.name} ${humanNs(point.ns)}, ${humanRate(point.flops_per_second, "FLOP/s")}`);
  });
}
