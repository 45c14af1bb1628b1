//! A line chart as SVG: fraction of the optimum over trials.

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 44.0;
/// Told apart also by people who do not see all colours alike.
const COLOURS: [&str; 9] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b",
    "#000000",
];

pub struct Line {
    name: String,
    /// Trials and fraction.
    points: Vec<(f64, f64)>,
    /// Known at these points only.
    dashed: bool,
}

impl Line {
    /// A value after each trial.
    pub fn curve(name: &str, values: Vec<f64>) -> Line {
        let points = values.into_iter().enumerate();
        Line {
            name: name.to_string(),
            points: points.map(|(t, v)| (t as f64 + 1.0, v)).collect(),
            dashed: false,
        }
    }

    pub fn points(name: &str, points: Vec<(f64, f64)>) -> Line {
        Line {
            name: name.to_string(),
            points,
            dashed: true,
        }
    }
}

pub fn svg(title: &str, lines: &[Line], lowest: f64) -> String {
    let last = lines.iter().flat_map(|l| &l.points).map(|p| p.0);
    let trials = last.fold(1.0, f64::max);
    let lowest = (lowest * 10.0).floor() / 10.0;
    let x = |trial: f64| LEFT + (WIDTH - LEFT - RIGHT) * trial / trials;
    let y = |value: f64| {
        let part = (value.clamp(lowest, 1.0) - lowest) / (1.0 - lowest);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    let mut tick = lowest;
    while tick <= 1.0 + 1e-9 {
        let at = y(tick);
        out += &format!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick:.2}</text>\n",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
        tick += if 1.0 - lowest > 0.25 { 0.1 } else { 0.05 };
    }
    for tick in [1.0, 25.0, 50.0, 100.0, 150.0, 200.0] {
        if tick <= trials {
            out += &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>\n",
                x(tick),
                HEIGHT - BOTTOM + 18.0
            );
        }
    }
    out += &format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">trials</text>\n",
        x(trials / 2.0),
        HEIGHT - 8.0
    );
    for (i, line) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let path: Vec<String> = line
            .points
            .iter()
            .map(|(t, v)| format!("{:.1},{:.1}", x(*t), y(*v)))
            .collect();
        let dash = if line.dashed {
            " stroke-dasharray=\"5 4\""
        } else {
            ""
        };
        let width = if i == 0 { 2.6 } else { 1.4 };
        let label = TOP + 8.0 + 18.0 * i as f64;
        out += &format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash} points=\"{}\"/>\n\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{label:.1}\" y2=\"{label:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            path.join(" "),
            WIDTH - RIGHT + 10.0,
            WIDTH - RIGHT + 32.0,
            WIDTH - RIGHT + 38.0,
            label + 4.0,
            line.name
        );
    }
    out + "</svg>\n"
}
