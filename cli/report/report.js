// SPDX-License-Identifier: Apache-2.0
// Draws the page from the JSON object in it. What comes from the object becomes text nodes and numbers, never markup.
"use strict";
(() => {
const printable = (_, value) => typeof value === "string" ? value.replace(/[\x00-\x09\x0b-\x1f]/g, "\ufffd") : value;
const object = JSON.parse(document.getElementById("object").textContent, printable);

// ---- nodes; children that are false, null, 0 or "" are left out ----

function make(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children.flat(Infinity).filter(child => child));
    return node;
}
const html = (name, attributes = {}, ...children) => make(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
    make(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const badge = (text, style = "") => html("span", {class: "badge " + style}, text);
const kind = text => badge(text, text === "exact" ? "sure" : text === "estimate" ? "guess" : "bound");
const sub = (text, style = "") => html("span", {class: "sub " + style}, text);

/** A table in a scrolling frame. A head that begins with # is of numbers, one with = of names. style: the class of row i. */
function table(label, heads, rows, style = () => "") {
    const cell = (content, i) => heads[i][0] === "=" ? html("th", {scope: "row"}, content)
        : html("td", {class: heads[i][0] === "#" ? "num" : ""}, content);
    const head = text => html("th", {scope: "col", class: text[0] === "#" ? "num" : ""}, text.replace(/^[#=]/, ""));
    return html("div", {class: "frame-x", tabindex: 0, role: "region", "aria-label": label}, html("table", {},
        html("thead", {}, html("tr", {}, heads.map(head))),
        html("tbody", {}, rows.map((row, i) => html("tr", {class: style(i)}, row.map(cell))))));
}

const numbers = (heads, rows) => html("details", {}, html("summary", {}, "Numbers of this picture"),
    table("numbers of the picture", heads, rows));

/** A paragraph for each line; numbers are kept in one piece, since browsers break lines at the hyphen of 1e-06; digests are not. */
const paragraphs = text => greek(text).split("\n").filter(line => line).map(line => html("p", {}, line.split(/( )/)
    .map(word => /\d/.test(word) && word.length < 30 ? html("span", {class: "nb"}, word) : word)));

// ---- words and numbers ----

/** Greek letters for whole words, neither in options (--delta) nor in names (delta.npy). */
function greek(text) {
    const joins = "[\\w\\-/\\\\@~=\\u0080-\\uffff]", letters = {epsilon: "ε", delta: "δ", sigma: "σ"};
    const words = new RegExp(`(?<!${joins})(epsilon|delta|sigma)(?!${joins}|\\.${joins})`, "g");
    return text.replace(words, word => letters[word]).replace(/(?<= )x(?= )/g, "×");
}

const rounded = (value, most, notation, roundingMode) => new Intl.NumberFormat("en",
    {notation, maximumSignificantDigits: most, useGrouping: false, roundingMode}).format(value);

/** The nearest, or with a side the nearest that is not below (1) or not above (-1) the value: a bound stays one. */
function digits(value, most, notation, side) {
    const nearest = rounded(value, most, notation, "halfEven");
    return side * Number(nearest) >= side * value ? nearest : rounded(value, most, notation, side > 0 ? "ceil" : "floor");
}

const sideOf = kind => kind === "lower bound" ? -1 : kind === "estimate" ? 0 : 1;

/** A number for people: its first significant digits, large and small ones as 1.5×10⁻⁶. */
function pretty(value, most, side = 0) {
    if (value === null) return "–";
    if (typeof value === "string") return value.replace("-", "−").replace("inf", "∞");
    const size = Math.abs(value), sign = value < 0 ? "−" : "";
    if (value < 0) side = -side;
    const [mantissa, power] = digits(size, most, "scientific", side).split("E");
    if (size === 0 || (size >= 1e-3 && Number(power) < most)) return sign + digits(size, most, "standard", side);
    const raised = [...power].map(digit => digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
    return sign + (mantissa === "1" ? "" : mantissa + "×") + "10" + raised;
}

const count = value => value < 10000 ? String(value) : String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");

function scaled(value, units) {
    let i = 0;
    for (; i + 1 < units.length && value >= 999.5; ++i) value /= 1000;
    return pretty(value, value >= 99.95 ? 4 : 3) + "\u00a0" + units[i];
}
const bytes = value => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]);

// ---- pictures with two axes ----

const LEFT = 92, RIGHT = 618, TOP = 44, BOTTOM = 332, WIDTH = 640, HEIGHT = 400;

/** Lines of the grid: steps of 1, 2 or 5 times a power of ten; on long logarithmic axes powers of ten. */
function gridLines(low, high, how) {
    const lines = [], span = Math.log10(high / low);
    if (!(how.log && span > 0.9)) {
        const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough)), part = rough / power;
        const step = Math.max(power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10), how.whole ? 1 : 0);
        for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i)
            lines.push({value: i * step, label: true, minor: i % 2 !== 0});
        return lines;
    }
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high)), decades = last - first;
    const every = decades > 21 ? 6 : decades > 14 ? 4 : decades > 7 ? 2 : 1;
    for (let i = first; i <= last; ++i)
        for (const k of span > 2.6 ? [1] : [1, 2, 5])
            if (k * 10 ** i >= low && k * 10 ** i <= high)
                lines.push({value: k * 10 ** i, label: k > 1 || i % every === 0,
                            minor: k > 1 || (span > 2.6 && Math.trunc(i / every) % 2 !== 0)});
    return lines;
}

/** An axis around values, with room at both ends unless it is `tight`. how: log, whole, zero (begins there), tight. */
function axis(title, values, how = {}) {
    const holds = value => Number.isFinite(value) && (!how.log || value > 0), seen = values.filter(holds);
    let [low, high] = seen.length ? [Math.min(...seen), Math.max(...seen)] : how.log ? [1, 10] : [0, 1];
    if (how.zero) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
    if (how.log) {
        const room = Math.log(high / low) > 2.5e-5 ? 0.04 * Math.log(high / low) : 0.7;
        [low, high] = [low * Math.exp(-room), high * Math.exp(room)];
    } else if (!how.tight) {
        const width = high - low > 1e-9 * Math.abs(high) ? high - low : Math.abs(high) || 1;
        high += 0.06 * width;
        if (!(how.zero && low === 0)) low -= 0.06 * width;
    }
    const place = value => how.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return {title, low, high, holds, place, lines: gridLines(low, high, how)};
}

const dot = (style, cx, cy, hollow) => svg("circle", {class: (hollow ? "hollow s" : "dot s") + style, cx, cy, r: 4});
const key = (style, width, drawn) => svg("svg", {class: style, "aria-hidden": true, viewBox: `0 0 ${width} 12`}, drawn);
const lineKey = style => key("key", 34, svg("path", {class: "line s" + style, d: "M1 6H33"}));
const dotKey = (style, hollow) => key("key small", 12, dot(style, 6, 6, hollow));
const signKeys = () => [[dotKey(1, false), "positive"], [dotKey(1, true), "negative"]];

const figure = (picture, keys, caption, more) => html("figure", {}, picture,
    keys.length && html("ul", {class: "legend"}, keys.map(one => html("li", {}, one))),
    html("figcaption", {}, html("p", {}, caption), more));

/** One axis of a picture: `at` places values, and narrow screens, whose letters are larger, hide every other label. */
function drawAxis(a, across, at) {
    const crowded = a.lines.filter(line => line.label).length > (across ? 5 : 7);
    return a.lines.map(({value, label, minor}) => {
        const place = at(value), last = place > RIGHT - 20;  // a long label in the middle of it would leave the picture
        const where = across ? {x: last ? WIDTH - 3 : place, y: BOTTOM + 24, "text-anchor": last ? "end" : "middle"}
            : {x: LEFT - 8, y: place, dy: ".33em", "text-anchor": "end"};
        return [svg("path", {class: "grid", d: across ? `M${place} ${TOP}V${BOTTOM}` : `M${LEFT} ${place}H${RIGHT}`}),
                label && svg("text", {class: crowded && minor ? "tick more" : "tick", ...where}, pretty(value, 6))];
    });
}

/**
 * A picture. series, the first of them on top: {style, points, name, line, dots, stems, hollow}, where hollow([x, y]) is
 * true for a ring; mark: a point to be noticed and its words; keys: more of the legend.
 */
function chart({label, x, y, series, mark, keys = [], caption, more}) {
    const atX = value => +(LEFT + (RIGHT - LEFT) * x.place(value)).toFixed(1);
    const atY = value => +(BOTTOM - (BOTTOM - TOP) * y.place(value)).toFixed(1);
    const drawn = ({style, points, line = true, dots, stems, hollow = () => false}) => {
        const seen = points.filter(([a, b]) => x.holds(a) && y.holds(b));
        const path = seen.map(([a, b], i) => stems ? `M${atX(a)} ${atY(0)}V${atY(b)}` : `${i ? "L" : "M"}${atX(a)} ${atY(b)}`);
        return [line && svg("path", {class: `line s${style}` + (stems ? " thin" : ""), d: path.join("")}),
                (dots || seen.length === 1) && seen.map(point => dot(style, atX(point[0]), atY(point[1]), hollow(point)))];
    };
    const marked = ({x: a, y: b, text}) => [
        svg("circle", {class: "ring", cx: atX(a), cy: atY(b), r: 9}),
        svg("text", {class: "mark", y: atY(b) - 16, ...(x.place(a) > 0.75 ? {x: atX(a) + 9, "text-anchor": "end"}
            : {x: atX(a) - 9, "text-anchor": "start"})}, text)];
    return figure(svg("svg", {role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-label": label},
        drawAxis(x, true, atX), drawAxis(y, false, atY),
        svg("path", {class: "frame", d: `M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}`}),
        svg("text", {class: "title", x: 12, y: 24}, y.title),
        svg("text", {class: "title", x: RIGHT, y: HEIGHT - 12, "text-anchor": "end"}, x.title),
        series.map(drawn).reverse(), mark && marked(mark)),
    [...series.filter(one => one.name).map(one => [lineKey(one.style), one.name]), ...keys], caption, more);
}

const level = (style, x, value, name) => ({style, name, points: [[x.low, value], [x.high, value]]});
const at = (points, i) => points.map(point => point[i]);

// ---- matrices ----

/** A heat map: cells of one colour are one path of horizontal runs. */
function heat(m) {
    const BEGIN = 112, ABOVE = 54, SIDE = 512, BAR = 20, LEVELS = 12, [rows, columns] = [m.levels.length, m.levels[0].length];
    // Entries are squares, unless far more rows than columns, or the other way, would make them too small to see.
    const height = SIDE * Math.min(1.5, Math.max(0.6, m.rows / m.columns)), bar = ABOVE + height + 24;
    const step = SIDE / (2 * LEVELS + 1), colour = n => (n > 0 ? "p" : "n") + Math.abs(n), runs = new Map(), scale = [];
    m.levels.forEach((row, i) => {
        for (let j = 0, end; j < columns; j = end) {
            for (end = j + 1; end < columns && row[end] === row[j]; ++end);
            if (row[j] !== 0) runs.set(row[j], (runs.get(row[j]) || "") + `M${j} ${i}h${end - j}v1H${j}z`);
        }
    });
    const text = (style, x, y, anchor, words, dy = 0) =>
        svg("text", {class: style, x, y, dy, "text-anchor": anchor}, words);
    const box = (style, y, height) => svg("rect", {class: style, x: BEGIN, y, width: SIDE, height});
    for (let n = -LEVELS; n <= LEVELS; ++n)
        if (n) scale.push(svg("rect", {class: colour(n), x: BEGIN + step * (n + LEVELS), y: bar, width: step + 0.2, height: BAR}));
    for (const [sign, decades, anchor] of [[-1, 0, "start"], [-1, 2, "middle"], [1, 2, "middle"], [1, 0, "end"]])
        scale.push(text("tick", BEGIN + step * (LEVELS + 0.5 + sign * (LEVELS + 0.5 - 3 * decades)), bar + BAR + 24, anchor,
            pretty(sign * m.largest * 10 ** -decades, 3)));
    const label = `Heat map of ${m.inverse ? "the left inverse of C" : "C"}, ${m.rows} rows and ${m.columns} columns, entries ` +
        `up to ${pretty(m.largest, 4)} in magnitude`;
    const picture = svg("svg", {role: "img", viewBox: `0 0 640 ${Math.round(bar + BAR + 40)}`, "aria-label": label},
        box("paper", ABOVE, height),
        svg("g", {transform: `translate(${BEGIN} ${ABOVE}) scale(${SIDE / columns} ${height / rows})`,
                  "shape-rendering": "crispEdges"}, [...runs].map(([n, d]) => svg("path", {class: colour(n), d}))),
        box("outline", ABOVE, height),
        text("tick", BEGIN, ABOVE - 10, "start", "0"), text("title", BEGIN + SIDE / 2, ABOVE - 10, "middle", "column"),
        m.columns > 1 && text("tick", BEGIN + SIDE, ABOVE - 10, "end", count(m.columns - 1)),
        text("tick", BEGIN - 8, ABOVE, "end", "0", ".8em"),
        text("title", BEGIN - 8, ABOVE + height / 2, "end", "row", ".33em"),
        m.rows > 1 && text("tick side", BEGIN - 8, ABOVE + height, "end", count(m.rows - 1)),
        svg("g", {"shape-rendering": "crispEdges"}, scale), box("outline", bar, BAR),
        text("tick", BEGIN + SIDE / 2, bar + BAR + 24, "middle", "0"));
    const name = m.inverse ? m.rows === m.columns ? "C⁻¹" : "W, the decoder, a left inverse of C" : "C, the encoder";
    const read = m.columns_read === m.columns ? "all" : count(m.columns_read);
    return figure(picture, [], `${name}, ${count(m.rows)} × ${count(m.columns)}. ` +
        (rows === m.rows && columns === m.columns ? "Every entry is shown. "
            : `Each cell has the entry of largest magnitude of its block; ${read} of ${count(m.columns)} columns were read. `) +
        "Blue is positive, red negative; the colour scale is logarithmic over four decades.");
}

/** The first column by lag: magnitudes on logarithmic axes, where a ring is a negative entry, or entries as they are. */
function coefficients(m) {
    const square = m.rows === m.columns, name = !m.inverse ? "C" : square ? "C⁻¹" : "W";
    if (!m.logarithmic) {
        const x = axis(square ? "lag t" : "row", [0, 1, Math.min(9, m.rows - 1), ...at(m.first, 0)], {whole: true});
        return chart({
            label: `Entries of the first column of ${name}`, x, y: axis("entry", at(m.first, 1), {zero: true}), keys: signKeys(),
            series: [{style: 1, points: m.first, stems: true, dots: true, hollow: ([, value]) => value < 0}, level(1, x, 0)],
            caption: `The first column of ${name}` + (square ? "" : ` (it has more ${m.inverse ? "columns" : "rows"} than steps)`) +
                `: ${m.non_zero} of its ${m.rows} entries are not zero, ${m.first.length} of them are drawn.`,
        });
    }
    const columns = [m.first, m.middle || []], largest = Math.max(...at(columns.flat(), 1).map(Math.abs));
    const seen = columns.map(points => points.filter(([, value]) => Math.abs(value) >= 1e-12 * largest));  // less is rounding
    const series = seen.filter(points => points.length).map((points, k) => {
        const negative = new Set(at(points.filter(([, value]) => value < 0), 0));
        return {style: k + 1, dots: true, hollow: ([lag]) => negative.has(lag),
                points: points.map(([lag, value]) => [lag, Math.abs(value)]),
                name: k ? `column ${Math.floor(m.columns / 2)}, from its diagonal on` : "column 0"};
    });
    const every = Math.ceil(seen[0].length / 24);
    return chart({
        label: `Magnitude of the entries of the first column of ${name} by lag, both axes logarithmic`, series, keys: signKeys(),
        x: axis("lag t", series.flatMap(one => at(one.points, 0)), {log: true}),
        y: axis("magnitude of the entry", series.flatMap(one => at(one.points, 1)), {log: true}),
        caption: `Entries of ${name} by lag, logarithmic on both axes; with too many lags to draw, the largest of each group; ` +
            `the entry at lag 0 is ${pretty(m.at_zero, 6)}.`,
        more: numbers(["#lag", "#entry"], [[0, m.at_zero], ...seen[0].filter((_, i) => i % every === 0)]
            .map(pair => pair.map(value => pretty(value, 6)))),
    });
}

// ---- a mechanism ----

function mechanismPage(o) {
    const p = o.privacy, claimed = p && p.epsilon_claimed !== null, bound = o.lower_bound || {}, best = o.optimum;
    const all = o.comparison.candidates, listed = all.filter(c => !c.search_point), own = all.find(c => c.this_file);
    const equal = o.comparison.equal_privacy, column = o.sensitivity.of === "column";
    const sampling = p && p.curve.length > 0 && p.curve[0].epsilon_sampling_known !== null;  // a second curve, without it
    const nameOf = c => c.family + (c.bands ? `, ${c.bands} bands` : "") + (c.normalized ? ", normalized" : "");

    function tiles() {
        const tile = (what, big, ...why) => html("li", {}, html("span", {class: "what"}, what),
            html("span", {class: "big"}, big), html("span", {class: "why"}, why));
        const per = o.sigma ? "σ × loss, clip norm 1 " : "at σ = 1 and clip norm 1 ", of = o.sensitivity.kind;
        return [
            !p && tile("epsilon ε", "none", "not calibrated"),
            p && tile("epsilon ε", pretty(claimed ? p.epsilon_claimed : p.epsilon, 5, 1),
                claimed && "claimed by the file; computed again: ", pretty(p.epsilon, 6, sideOf(p.kind)), " ", kind(p.kind),
                p.confidence && ` at confidence ${pretty(p.confidence, 6, -1)}`),
            p && tile("delta δ", pretty(p.delta, 4, 1), claimed ? "of the guarantee" : "chosen for this page"),
            p && tile("noise multiplier σ", pretty(o.sigma, 5, 1), "per unit of sensitivity ", badge("given")),
            tile("noise, RMS over steps", pretty(o.noise_rms, 5, sideOf(of)), per, kind(of)),
            tile("noise, largest step", pretty(o.noise_max, 5, sideOf(of)), per, kind(of)),
            o.ratio ? tile("from the proven optimum", `+${pretty(Math.max(0, 100 * (o.ratio - 1)), 3, 1)} %`,
                "RMS noise, at most ", kind("upper bound"))
                : tile("from the proven optimum", "not known",
                    o.sampled ? "no bound is proven with sampling" : "no bound is known for this setting"),
            tile(column ? "sensitivity, column" : "sensitivity", pretty(o.sensitivity.value, 5, sideOf(of)),
                column ? "largest column norm of C " : "of C under the participation ", kind(of)),
            o.cost.memory_bytes && tile("memory of the noise", bytes(o.cost.memory_bytes),
                `${count(o.cost.dim)} numbers per row, float32 `, kind("exact")),
        ];
    }

    function facts() {
        const number = (value, of, why) => [pretty(value, 9, sideOf(of)), " ", kind(of),
            of === "exact" && Number(rounded(value, 9, "standard", "halfEven")) !== value && " rounded up", why && [" ", html("span", {class: "lead"}, why)]];
        const of = o.sensitivity.kind;
        return [
            ["Family", o.family], ["Made by", o.made_by], ["Designed for", o.designed], ["Steps", count(o.steps)],
            ["Stamps", o.stamps > 1 && count(o.stamps)], ["Columns of C", o.normalized ? "normalized" : "as they are"],
            ["Buffers", count(o.buffers)], ["Workload", o.workload], ["Weights of the steps", o.weights && "given"],
            ["Participation", o.participation], ["Sampling", o.sampling], ["Adjacency", o.adjacency],
            [column ? "Sensitivity (largest column)" : "Sensitivity", number(o.sensitivity.value, of, o.sensitivity.method)],
            ["RMS loss", number(o.rms_loss, of)], ["Max loss", number(o.max_loss, of)],
            ["RMS loss of any mechanism", bound.rms_loss && number(bound.rms_loss, "lower bound", bound.scope)],
            ["Max loss of any mechanism", bound.max_loss && number(bound.max_loss, "lower bound", bound.scope)],
            ["Digest (SHA-256)", html("code", {}, o.digest), "wide"],
        ].map(([name, value, style = ""]) =>
            value && [html("dt", {class: style}, name), html("dd", {class: style}, value)]);
    }

    function comparison() {
        const noise = listed.map(c => c.noise_rms), least = Math.min(...noise), most = Math.min(3 * least, Math.max(...noise));
        const meter = c => {
            const bar = html("span", {class: c.noise_rms > most ? "meter over" : "meter"});
            bar.style.width = `${Math.round(100 * Math.min(1, c.noise_rms / most))}%`;
            return bar;
        };
        const columns = [  // head, cell
            ["=Mechanism", c => [nameOf(c), " ", c.this_file && badge("this file", "mine"),
                c.best_eligible && badge("best eligible", "sure"), c.sampling && sub("sampled: " + c.sampling),
                c.reason && sub(c.reason, "reason")]],
            ["#Noise, RMS", c => [pretty(c.noise_rms, 5), sub(c.kind), meter(c)]],
            o.comparison.range_of_separations && ["#Worst ratio", c => pretty(c.worst_ratio, 6)],
            ["#× least", c => pretty(c.noise_rms / least, 4)],
            ["#Noise, max", c => pretty(c.noise_max, 5)],
            equal && ["#σ", c => pretty(c.sigma, 5)],
            ["#Sensitivity", c => [pretty(c.sensitivity.value, 5),
                sub(c.sensitivity.kind + (c.sensitivity.of === "column" ? ", column" : ""))]],
            ["#Buffers", c => count(c.buffers)],
            ["#Memory", c => c.memory_bytes ? bytes(c.memory_bytes) : "–"],
            ["#Loss / bound", c => pretty(c.ratio, 6)],
        ].filter(one => one);
        return table("comparison of mechanisms", at(columns, 0), listed.map(c => columns.map(([, cell]) => cell(c))),
            i => listed[i].this_file ? "own" : listed[i].best_eligible ? "best" : listed[i].eligible ? "" : "out");
    }

    const stepAxis = () => axis("step", [0, Math.max(1, o.steps - 1)], {tight: true, whole: true});

    function steps() {
        const x = stepAxis(), {noise, optimum, sample} = o.per_step, lower = o.noise_rms_bound;
        return chart({
            label: "Standard deviation of the noise in the output of each step, of this mechanism and of the optimum", x,
            y: axis("noise of the output" + (o.sigma ? "" : ", σ = 1"), at([...noise, ...(optimum || [])], 1), {zero: true}),
            series: [
                {style: 1, points: noise, name: `this file, RMS ${pretty(o.noise_rms, 5)}`},
                optimum && {style: 2, points: optimum, name: `${best.name}, RMS ${pretty(best.noise_rms, 5)}`},
                lower && level(3, x, lower,
                    `RMS that no mechanism${o.sampled ? " without sampling" : ""} can beat: ${pretty(lower, 5)} (lower bound)`),
            ].filter(one => one),
            caption: "Standard deviation of the noise in what each step publishes or trains with, clip norm 1. Kind of this " +
                `file's figures: ${o.sensitivity.kind}.`,
            more: numbers(["#step", "#this file", "#optimum"].slice(0, optimum ? 3 : 2), sample.map(one =>
                [one.step, one.noise, one.optimum].slice(0, optimum ? 3 : 2).map(value => pretty(value, 6)))),
        });
    }

    function stepRatio() {
        const x = stepAxis(), points = o.per_step.ratio;
        return chart({
            label: "Noise of each step over that of the optimum at the same step",
            x, y: axis("this file / optimum", [1, ...at(points, 1)]),
            series: [{style: 1, points, name: "this file over the optimum"}, level(2, x, 1, "the optimum")],
            caption: "The same, divided step by step. The optimum is the best for the RMS over all steps, so single steps may " +
                "lie below 1.",
        });
    }

    /** Noise against bands, or against buffers: families with a search as curves, at most five, the others as points. */
    function sweep(banded) {
        const along = c => banded ? c.bands : c.buffers + 1, shown = all.filter(c => !banded || c.bands);
        const groupOf = c => [c.family, (c.sampling || "").split(":")[0], c.normalized, c.bands > 0].join();
        const groups = [...new Set(all.map(groupOf))].filter(g => all.some(c => c.search_point && groupOf(c) === g)).slice(0, 5);
        const single = c => !groups.includes(groupOf(c)), least = Math.min(...shown.map(c => c.noise_rms));
        // A single point far away would press the others together.
        const near = shown.filter(c => c.noise_rms <= 4 * least || c.this_file || !single(c)), noise = near.map(c => c.noise_rms);
        const x = axis(banded ? "bands" : "buffers + 1", near.map(along), {log: true});
        const y = axis("noise, RMS", noise, {log: Math.max(...noise) > 8 * least});
        const inside = c => along(c) >= x.low && along(c) <= x.high && c.noise_rms >= y.low && c.noise_rms <= y.high;
        const points = of => of.map(c => [along(c), c.noise_rms]).sort((a, b) => a[0] - b[0]);
        const others = points(shown.filter(c => single(c) && inside(c))), marked = shown.includes(own);
        const curve = (g, k) => {
            const of = shown.filter(c => groupOf(c) === g), [c] = of;
            return c && {style: k + 1, points: points(of), dots: true,
                         name: c.family + (c.normalized ? ", normalized" : "") + (c.sampling ? ", sampled" : "")};
        };
        return chart({
            label: banded ? "RMS noise of banded mechanisms against their number of bands"
                : "RMS noise of mechanisms against the rows of noise that they keep", x, y,
            series: [...groups.map(curve).filter(one => one), {style: 6, points: others, line: false, dots: true}],
            mark: marked && {x: along(own), y: own.noise_rms, text: "this file"},
            keys: others.length ? [[dotKey(6), "one mechanism of another family"]] : [],
            caption: (banded ? "Noise against the diagonals of C that are not zero (of C⁻¹ for bisr)."
                : "Noise against the rows that a stream keeps in memory, including its own row.") +
                (shown.every(inside) ? "" : " Single mechanisms with more than four times the least noise are left out.") +
                (marked ? " The ring is the mechanism of this file." : ""),
            more: numbers(["mechanism", "#buffers", "#noise, RMS"],
                shown.map(c => [nameOf(c), count(c.buffers), pretty(c.noise_rms, 6)])),
        });
    }

    /** Noise per epoch against the batch size, at the file's epochs and privacy. */
    function batches() {
        const b = o.batches, points = name => b.points.map(one => [one.batch, one[name]]);
        const series = [
            {style: 1, points: points("noise_per_epoch"), name: "the best mechanism, any sampling", dots: true},
            {style: 2, points: points("fixed_noise_per_epoch"), name: "the best in a fixed order", dots: true},
            {style: 3, points: points("independent_noise_per_epoch"), name: "DP-SGD (Poisson sampling)", dots: true},
        ];
        const noise = [b.noise_per_epoch, ...series.flatMap(one => at(one.points, 1))];
        return chart({
            label: "Noise per epoch of progress against the batch size, both axes logarithmic", series,
            x: axis("batch size", [b.batch, ...at(series[0].points, 0)], {log: true}), y: axis("noise / epochs", noise, {log: true}),
            mark: {x: b.batch, y: b.noise_per_epoch, text: "this file"},
            caption: `σ × loss / epochs for ${count(b.units)} units in ${pretty(b.epochs, 6)} epochs, all at the ε and δ of this file. ` +
                "Smaller batches mean more steps.",
            more: numbers(["#batch", "#steps", "#any sampling", "family", "#fixed order", "family", "#DP-SGD"],
                b.points.map(one => [pretty(one.batch, 6), count(one.steps), pretty(one.noise_per_epoch, 5, 1), one.family,
                    pretty(one.fixed_noise_per_epoch, 5, 1), one.fixed_family, pretty(one.independent_noise_per_epoch, 5, 1)])),
        });
    }

    function curve() {
        const pairs = name => p.curve.map(one => [one[name], one.delta]), end = p.curve[p.curve.length - 1];
        const both = sampling && end.epsilon_sampling_known < 6 * end.epsilon;  // where it does not press the first one flat
        const series = [
            {style: 1, points: pairs("epsilon"), name: `this file (${p.kind})`}, {style: 1, points: [[p.epsilon, p.delta]]},
            both && {style: 2, points: pairs("epsilon_sampling_known"),
                     name: "the same noise if the sampling were known (upper bound)"},
        ].filter(one => one);
        return chart({
            label: "delta, logarithmic, against epsilon for this mechanism", series,
            x: axis("epsilon ε", series.flatMap(one => at(one.points, 0)), {zero: true}),
            y: axis("delta δ", series.flatMap(one => at(one.points, 1)), {log: true}),
            mark: {x: p.epsilon, y: p.delta, text: `ε = ${pretty(p.epsilon, 4)}`},
            caption: (p.confidence ? "For the one noise multiplier of the file. Each point holds with probability " +
                `${pretty(p.confidence, 6)} over its own simulation.`
                : "All pairs on the curve hold at once, for the one noise multiplier of the file.") +
                ` Marked: ${claimed ? "the pair that the file claims" : "the δ chosen for this page"}.`,
        });
    }

    function risk() {
        const rates = p.risk.rates.map(one => [one.fpr, one.tpr]), guess = p.risk.rates.map(one => [one.fpr, one.fpr]);
        const series = [{style: 1, points: rates, name: `the best test (${p.risk.kind})`},
            {style: 2, points: guess, name: "guessing"}];
        return chart({
            label: "largest true positive rate against the false positive rate, both logarithmic", series,
            x: axis("false positive rate", at(rates, 0), {log: true}),
            y: axis("true positive rate", series.flatMap(one => at(one.points, 1)), {log: true}),
            caption: `The largest difference of the two rates, at any rate, is ${pretty(p.risk.advantage, 4, 1)}.`,
        });
    }

    const riskTable = () => table("largest true positive rates", ["#False positive rate", "#True positive rate, at most"],
        [...p.risk.rates.map(one => [pretty(one.fpr, 3, -1), pretty(one.tpr, 4, 1)])]);

    const curveTable = () => table("epsilon at several delta", ["#δ", "#ε", sampling ? "#ε, sampling known" : "Kind"],
        p.curve.filter((_, i) => o.sampled || i % 2 === 0).map(one => [pretty(one.delta, 3), pretty(one.epsilon, 5),
            sampling ? pretty(one.epsilon_sampling_known, 5) : kind(p.kind)]));

    function cost() {
        const c = o.cost, exact = () => kind("exact");
        return table("cost of the noise", ["=This file", "#Figure", "Kind"], [
            ["Rows kept (buffers)", count(o.buffers), exact()],
            ["Numbers in a row", count(c.dim), badge(c.dim_is + (c.dim_is === "assumed" ? "; --dim changes it" : ""))],
            c.memory_bytes && ["Memory, total", bytes(c.memory_bytes), exact()],
            c.memory_bytes && ["of it buffers", bytes(c.memory_buffers_bytes), exact()],
            ["Noise made step by step", c.step_by_step ? "yes" : "no, all rows in advance", exact()],
            c.normals_per_number > 1 && ["Normal numbers per number", pretty(c.normals_per_number, 3), exact()],
            own.overhead && ["Time of a row over that of independent noise", "× " + pretty(own.overhead, 3),
                             badge("by the cost model", "guess")],
        ].filter(row => row));
    }

    /** Bars; their lengths are logarithmic, the figures beside them are not. */
    function memory() {
        const ROW = 34, BEGIN = 250, LONGEST = 250;
        const shown = listed.filter(c => c.memory_bytes).filter((c, i) => i < 14 || c.this_file);
        const sizes = shown.map(c => Math.log(c.memory_bytes)), least = Math.min(...sizes), range = Math.max(...sizes) - least + 1;
        const bars = shown.map((c, i) => {
            const y = 8 + ROW * i, length = LONGEST * (sizes[i] - least + 1) / range, middle = {y: y + ROW / 2, dy: ".33em"};
            return [
                svg("text", {class: c.this_file ? "mark" : "tick", x: BEGIN - 10, "text-anchor": "end", ...middle},
                    c.family + (c.bands ? ` ${c.bands}` : "")),
                svg("rect", {class: c.this_file ? "dot s2" : "dot s1", x: BEGIN, y: y + 7, width: length, height: ROW - 14, rx: 3}),
                svg("text", {class: "tick", x: BEGIN + length + 8, ...middle}, bytes(c.memory_bytes))];
        });
        return shown.length && figure(svg("svg", {role: "img", viewBox: `0 0 640 ${shown.length * ROW + 16}`,
                                                  "aria-label": "Memory of the noise stream of each mechanism"}, bars), [],
            `Memory of each mechanism's noise stream for rows of ${count(o.cost.dim)} numbers, float32; the number after a name ` +
            "is its bands, the lengths of the bars are logarithmic. This file has the other colour.");
    }

    const list = lines => lines.map(line => line && html("li", {}, greek(line)));
    const shell = name => /^[\w.+=,@%][\w.+=,@%-]*$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
    return {
        if: {
            accounted: p, equal, compared: o.comparison.words, why: o.comparison.why !== null,
            square: o.matrices.every(m => m.rows === m.columns), per_step: o.per_step, optimum: best, bound: o.noise_rms_bound,
            single: o.single_participation, calibrated: o.sigma, curve: p && p.curve.length > 1,
            no_curve: o.sigma && !(p && p.curve.length > 1), risk: p && p.risk, batches: o.batches, notes: o.notes.length,
            sampled: o.sampled, bounded: o.sensitivity.kind !== "exact", assumed_dim: o.cost.dim_is === "assumed",
            tree: o.family.startsWith("tree"), bsr: o.family === "bsr",
            ["in_" + (o.sampled ? "samples" : o.participation.split(":")[0].replace("-", ""))]: true,
        },
        text: {
            ...o, steps: count(o.steps), compared: greek(o.comparison.words), method: p && p.method,
            short_digest: o.digest.slice(0, 16) + "…", commands: `dpmf verify ${shell(o.name)}\ndpmf inspect ${shell(o.name)}`,
            optimum: best && best.name + (best.gap !== null
                ? `, proven to be within ${pretty(100 * best.gap, 2)} % of the least RMS of its class` : "") +
                (best.scope && ` (${best.scope})`),
        },
        fill: {
            tiles, facts, comparison, steps, step_ratio: stepRatio, batches, curve, curve_table: curveTable, risk, risk_table: riskTable, cost, memory,
            statement: () => [paragraphs(p.statement), !claimed && html("p", {},
                `The file has σ but claims no ε: δ = ${pretty(p.delta, 6)} was chosen for this page.`)],
            why: () => list(o.comparison.why.split("\n")), notes: () => list(o.notes),
            matrices: () => o.matrices.map(heat), coefficients: () => o.matrices.map(coefficients),
            sweeps: () => [all.some(c => c.bands) && sweep(true), sweep(false)],
            parts: () => table("epsilon of a part of the run and of several runs", ["Released", "#ε", "Kind", "By"],
                p.parts.map(one => [one.released, pretty(one.epsilon, 5), kind(one.kind), one.by])),
        },
    };
}

// ---- a stream, an audit ----

function streamPage(o) {
    return {
        if: {ranges: o.ranges.length}, text: o,
        fill: {
            statement: () => paragraphs(o.statement),
            totals: () => chart({
                label: "released totals and their bands against the lines of the stream",
                x: axis("line", [0, o.lines - 1], {zero: true}), y: axis("released total", at([...o.lower, ...o.upper], 1)),
                series: [{style: 1, points: o.total, name: "released"}, {style: 2, points: o.upper},
                         {style: 2, points: o.lower, name: `bands that hold for all lines together, level ${o.level}`}],
                caption: `Totals of ${o.lines} lines; where the bands cannot be seen they are narrower than the line.`,
            }),
            ranges: () => table("ranges with their intervals", ["=lines", "#estimate", "#standard deviation", "#lower", "#upper"],
                o.ranges.map(one => [one.range,
                                     ...[one.estimate, one.deviation, one.lower, one.upper].map(value => pretty(value, 6))])),
        },
    };
}

function auditPage(o) {
    const rates = [[0, 0]];
    for (const one of o.ranking) {
        const [x, y] = rates[rates.length - 1];
        rates.push(one === "1" ? [x, y + 1 / o.included] : [x + 1 / (o.canaries - o.included), y]);
    }
    return {
        if: {}, text: o,
        fill: {
            scores: () => chart({
                label: "Number of canaries by score, for those that were in and those that were not",
                x: axis("score: logarithm of the likelihood ratio of in and out", at(o.scores, 0)),
                y: axis("canaries", [...at(o.scores, 1), ...at(o.scores, 2)], {zero: true}),
                series: ["in", "out"].map((name, k) =>
                    ({style: k + 1, name, points: o.scores.map(bin => [bin[0], bin[k + 1]])})),
                caption: "Scores of the canaries. The better the noise hides them, the more the two curves overlap.",
            }),
            rates: () => chart({
                label: "Canaries found against others accused",
                x: axis("fraction of the others that is accused (FPR)", [0, 1], {tight: true}),
                y: axis("fraction of the canaries that is found (TPR)", [0, 1], {tight: true}),
                series: [{style: 1, points: rates, name: "this attack"}, {style: 2, points: [[0, 0], [1, 1]], name: "a coin"}],
                mark: {x: o.fpr, y: o.tpr, text: "1%"},
                caption: `Result of the attack. At most 1% of the others accused: ${pretty(o.tpr, 3)} of the canaries found.`,
            }),
        },
    };
}

// ---- the page: its template, filled, takes the place of the plain part ----

const page = {mechanism: mechanismPage, stream: streamPage, audit: auditPage}[object.page](object);
const content = document.getElementById(object.page).content.cloneNode(true);
for (const node of content.querySelectorAll("[data-if]")) {
    const name = node.dataset.if.replace("!", "");
    if (Boolean(page.if[name]) === node.dataset.if.startsWith("!")) node.remove();
}
for (const node of content.querySelectorAll("[data-text]")) node.textContent = page.text[node.dataset.text];
for (const node of content.querySelectorAll("[data-fill]")) make(node, {}, [page.fill[node.dataset.fill]()]);
document.getElementById("plain").replaceWith(content);
})();
