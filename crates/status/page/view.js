// The parts of the status page: elements, texts, tables and charts. Names and texts become text nodes, never markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Makes an element with these properties and children. A text child is not parsed as markup. */
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") made.className = value;
    else if (name === "click") made.addEventListener("click", value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function drawn(tag, properties) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  return made;
}

/** Replaces the children of an element. Keeps the focus on the child with the same key. */
function show(id, ...children) {
  const place = byId(id);
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children);
  if (focused === undefined) return;
  const again = [...place.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused);
  if (again) again.focus({ preventScroll: true });
}

/** Replaces characters that are invisible, look like a space, or change the direction of writing. Otherwise two names could look alike. */
const clean = (text) => String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}\u2800]|(?! )\p{Zs}/gu, "\ufffd");
const count = (number) => (number < 100000 ? whole.format(number) : compact.format(number));
const share = (part, all) => (all ? (100 * part) / all : 0);
const percent = (value) => (value === 0 ? "0" : value < 0.1 ? "<0.1" : value < 9.95 ? value.toFixed(1) : value.toFixed(0));
const clock = (at) => new Date(at).toLocaleTimeString("en-GB");
const plural = (number, word) => `${whole.format(number)} ${word}${number === 1 ? "" : "s"}`;

function bytes(number) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (number < 1000 || unit === "GB") return `${number < 10 && unit !== "B" ? number.toFixed(1) : Math.round(number)} ${unit}`;
    number /= 1000;
  }
}

function lasting(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** Formats a figure with its error: the exact number, or its range. */
function ranged(client) {
  const cell = element("span", {}, count(client.at_least));
  if (client.at_most > client.at_least) cell.append(element("span", { class: "soft" }, ` – ${count(client.at_most)}`));
  return cell;
}

function link(text, key, click) {
  const made = element("button", { type: "button", class: "link", title: clean(text), click }, clean(text));
  made.dataset.key = key;
  return made;
}

const clientLink = (client, where) =>
  client.is_cut
    ? element("span", { title: "This name is too long to be shown whole." }, clean(client.name))
    : link(client.name, `${where} ${client.name}`, () => showClient(client.name));

function table(columns, rows, empty) {
  if (rows.length === 0) return element("p", { class: "empty" }, empty);
  const title = (name) => name || element("span", { class: "unseen" }, "Share of the largest");
  const head = columns.map(([name, style]) => element("th", { class: style, scope: "col" }, title(name)));
  const body = rows.map((cells) => {
    const made = cells.map((cell, at) => {
      const [content, style] = Array.isArray(cell) ? cell : [cell, ""];
      return element("td", { class: `${columns[at][1] || ""} ${style}`.trim() }, content);
    });
    return element("tr", {}, ...made);
  });
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}

/** Draws areas on top of each other, the latest value at the right. */
function chart(layers, length, options) {
  const tops = new Array(length).fill(0);
  const paths = [];
  for (const [style, values] of layers) {
    const missing = Math.max(0, length - values.length);
    const below = tops.slice();
    for (let at = missing; at < length; at += 1) tops[at] += values[values.length - length + at];
    paths.push([style, below, tops.slice()]);
  }
  const most = Math.max(options.quota || 0, 1, ...tops);
  const y = (value) => (100 - (96 * value) / most).toFixed(2);
  const x = (at) => ((1000 * at) / Math.max(1, length - 1)).toFixed(1);
  const svg = drawn("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": options.label });
  for (const line of [100, 52, 4]) svg.append(drawn("line", { class: "grid", x1: 0, x2: 1000, y1: line, y2: line }));
  for (const [style, below, above] of paths) {
    const up = above.map((value, at) => `${x(at)},${y(value)}`);
    const back = below.map((value, at) => `${x(at)},${y(value)}`).reverse();
    svg.append(drawn("path", { class: `area ${style}`, d: `M${up.join("L")}L${back.join("L")}Z` }));
  }
  if (options.quota) svg.append(drawn("line", { class: "quota", x1: 0, x2: 1000, y1: y(options.quota), y2: y(options.quota) }));
  const axis = element("div", { class: "axis", "aria-hidden": "true" }, element("span", {}, options.from), element("span", {}, "now"));
  return [svg, element("span", { class: "top", "aria-hidden": "true" }, `${most < 10 ? Number(most.toFixed(1)) : count(Math.round(most))}${options.unit}`), axis];
}

function bar(parts, all) {
  const made = element("div", { class: "bar", "aria-hidden": "true" });
  for (const [style, part] of parts) {
    const piece = element("i", { class: style });
    piece.style.width = `${Math.min(100, share(part, all))}%`;
    made.append(piece);
  }
  return made;
}

const less = (all, ...parts) => (all || []).map((value, at) => parts.reduce((left, part) => left - (part[at] || 0), value));

function choice(id, options, chosen, choose) {
  const buttons = options.map(([value, text]) => {
    const button = element("button", { type: "button", "aria-pressed": String(value === chosen), click: () => choose(value) }, text);
    button.dataset.key = value;
    return button;
  });
  show(id, ...buttons);
}

