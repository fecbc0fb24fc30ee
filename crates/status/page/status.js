// The status page: reads /status.json, then a line of /events for each second. Names and texts become text nodes, never markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const SECONDS = 300;
const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

let status = null; // the last document, with the series of this page
let source = null; // the stream
let polling = null; // what stands in for the stream
let lastSeen = 0; // when the last document came, in ms
const shown = { by: "refused", window: "minute", span: "seconds" };
let open = null; // what the dialog shows: { kind, name }

/** An element with these properties and children; text is text. */
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

/** Replaces what is in an element, and keeps the focus where it was. */
function show(id, ...children) {
  const place = byId(id);
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  place.replaceChildren(...children);
  if (focused === undefined) return;
  const again = [...place.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused);
  if (again) again.focus({ preventScroll: true });
}

/** Control characters would be invisible, and others turn the direction of writing. */
const clean = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
const count = (number) => (number < 100000 ? whole.format(number) : compact.format(number));
const share = (part, all) => (all ? (100 * part) / all : 0);
const percent = (value) => (value === 0 ? "0" : value < 0.1 ? "<0.1" : value < 10 ? value.toFixed(1) : value.toFixed(0));
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

/** A figure with its error: the exact number, or the range that it is in. */
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

/** Areas on top of each other, the latest value at the right. */
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
  return [svg, element("span", { class: "top", "aria-hidden": "true" }, `${count(Math.round(most))}${options.unit}`), axis];
}

function spanOf(series) {
  const minutes = shown.span === "minutes";
  const values = series ? series[shown.span] : {};
  const known = Math.max(60, ...Object.values(values).map((column) => column.length));
  const length = Math.min(known, minutes ? 240 : SECONDS);
  return {
    values,
    length,
    from: `${lasting(minutes ? length * 60 : length)} ago`,
    unit: minutes ? "/min" : "/s",
    scale: minutes ? 60 : 1,
  };
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

function pick(name, value) {
  shown[name] = value;
  render();
}

function renderHead() {
  const { gateway, health } = status;
  const late = Date.now() - lastSeen > 5000;
  const words = { ok: "Healthy", warning: "Needs attention", failing: "Failing" };
  const pill = byId("health");
  pill.className = `pill ${late ? "" : health.state}`;
  const word = late ? "No answer, reconnecting" : words[health.state] || health.state;
  if (pill.textContent !== word) pill.textContent = word;
  const facts = [`version ${gateway.version}`, `up ${lasting(gateway.uptime_seconds)}`, plural(gateway.connections, "connection")];
  if (gateway.memory_bytes) facts.push(bytes(gateway.memory_bytes));
  show("facts", ...facts.map((fact) => element("span", {}, fact)));
  byId("reasons").hidden = health.reasons.length === 0;
  show("reasons", ...health.reasons.map((reason) => element("li", { class: health.state }, clean(reason))));
  show("footer", `configuration ${clean(gateway.configuration)}, since ${new Date(gateway.configured_at).toLocaleString("en-GB")}`);
}

function renderOverview() {
  const { minute, series } = status.requests;
  const covered = Math.max(1, Math.min(60, status.tick));
  const figure = (value, unit, name, style) =>
    element("div", { class: style || "" }, element("dt", {}, name), element("dd", {}, value, unit ? element("small", {}, unit) : null));
  const refused = share(minute.refused, minute.all);
  show(
    "figures",
    figure(count(Math.round(minute.all / covered)), "/s", "requests"),
    figure(percent(refused), "%", "refused", minute.refused ? "hot" : ""),
    figure(count(minute.failed), "", "failed in a minute", minute.failed ? "bad" : ""),
    figure(minute.mean_ms < 10 ? minute.mean_ms.toFixed(1) : count(Math.round(minute.mean_ms)), "ms", "mean time"),
  );
  const span = spanOf(series);
  const { all = [], refused: over = [], failed = [] } = span.values;
  const label = `Requests over time: in the last minute ${minute.all}, of these ${minute.refused} refused and ${minute.failed} failed`;
  byId("traffic").replaceChildren(
    ...chart([["", less(all, over, failed)], ["refused", over], ["failed", failed]], span.length, { ...span, label }),
  );
  const keys = [["", "served"], ["refused", "refused"], ["failed", "failed"]];
  show("legend", ...keys.map(([style, text]) => element("span", { class: `key ${style}` }, text)));
  choice("span", [["seconds", "5 min"], ["minutes", "4 h"]], shown.span, (value) => pick("span", value));
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

function renderLimits() {
  const over = (limit) => limit.minute.refused + limit.minute.would_refuse;
  const sorted = [...status.limits].sort((one, other) => over(other) - over(one) || other.minute.admitted - one.minute.admitted);
  const most = Math.max(1, ...sorted.map((limit) => limit.minute.admitted + over(limit)));
  const rows = sorted.map((limit) => [
    link(limit.name, `limit ${limit.name}`, () => showLimit(limit.name)),
    bar([["", limit.minute.admitted], ["refused", over(limit)]], most),
    count(limit.minute.admitted),
    [limit.observed ? `(${count(over(limit))})` : count(over(limit)), over(limit) ? "hot" : "soft"],
    [limit.near_keys ? count(limit.near_keys) : "–", limit.near_keys ? "" : "soft"],
  ]);
  const columns = [["Limit", ""], ["", "graph"], ["Admitted", "number optional"], ["Refused", "number short"], ["Near", "number short"]];
  show("limits", table(columns, rows, "No route has a limit."));
}

function renderClients() {
  choice("by", [["refused", "Refused"], ["admitted", "Most use"], ["near", "Near a limit"]], shown.by, (value) => pick("by", value));
  choice("window", [["minute", "Last minute"], ["start", "Since start"]], shown.window, (value) => pick("window", value));
  byId("window").hidden = shown.by === "near";
  if (shown.by === "near") {
    const rows = status.clients.near.slice(0, 12).map((near) => [
      clientLink(near, `near ${near.limit}`),
      [clean(near.limit), "soft"],
      bar([[near.left === 0 ? "refused" : "", near.of - near.left]], near.of),
      `${count(near.left)} of ${count(near.of)}`,
    ]);
    show("clients", table([["Client", ""], ["Limit", "optional"], ["", "graph"], ["Left", "number"]], rows, "Nobody has used four fifths of a limit."));
    return;
  }
  const found = status.clients[shown.window][shown.by];
  const rows = found.top.slice(0, 12).map((client) => [
    clientLink(client, "client"),
    bar([[shown.by === "refused" ? "refused" : "", client.at_least]], found.top[0].at_least),
    [ranged(client), shown.by === "refused" ? "hot" : ""],
    [`${percent(share(client.at_least, found.total))} %`, "soft"],
  ]);
  const what = shown.by === "refused" ? "Refused" : "Admitted";
  const empty = shown.by === "refused" ? "No client was refused." : "No request was charged to a limit.";
  show("clients", table([["Client", ""], ["", "graph"], [what, "number"], ["Share", "number short optional"]], rows, empty));
}

function refusalRows(refusals) {
  return refusals.map((refusal) => [
    [clock(refusal.at), "time"],
    clientLink({ name: refusal.client, is_cut: refusal.is_cut }, `refusal ${refusal.at}`),
    [clean(refusal.limit), "soft"],
    [clean(refusal.route), "soft"],
  ]);
}

function renderLists() {
  const { recent, left_out: leftOut } = status.refusals;
  const columns = [["Time", "time"], ["Client", ""], ["Limit", ""], ["Route", "optional"]];
  show("refusals", table(columns, refusalRows(recent.slice(0, 50)), "No request was refused."));
  show("left-out", leftOut ? `${count(leftOut)} more at busy times` : "");
  const events = status.events.map((event) =>
    element("li", {}, element("span", { class: "soft" }, clock(event.at)), element("span", { class: `dot is-${event.state}` }, clean(event.text))),
  );
  show("events", element("ul", { class: "events" }, ...events));
  renderOverrides();
  const busy = status.routes.filter((route) => route.path !== null || route.total > 0);
  const routes = busy.map((route) => [
    element("span", { title: clean(route.path === null ? "requests that match no route" : route.path) }, clean(route.name)),
    count(route.minute.all),
    [count(route.minute.refused), route.minute.refused ? "hot" : "soft"],
    [count(route.minute.failed), route.minute.failed ? "bad" : "soft"],
    [`${route.minute.mean_ms.toFixed(1)} ms`, "soft"],
  ]);
  const heads = [["Route", ""], ["Requests", "number"], ["Refused", "number short"], ["Failed", "number short"], ["Mean", "number short optional"]];
  show("routes", table(heads, routes, "There is no route."));
}

function renderBehind() {
  const states = { healthy: "", ejected: "is-warning", unhealthy: "is-failing" };
  const servers = status.upstreams.flatMap((upstream) =>
    upstream.servers.map((server) => [
      element("span", { title: clean(upstream.name) }, clean(upstream.name === server.url ? server.url : `${upstream.name}: ${server.address}`)),
      element("span", { class: `state ${states[server.state]}` }, server.state),
      [`${server.in_flight} open`, "soft"],
    ]),
  );
  const parts = [table([["Server", ""], ["State", "number"], ["Requests", "number short"]], servers, "No server is known yet.")];
  const { redis } = status.store;
  if (redis) {
    const facts = [
      [element("span", { class: `state ${redis.is_up ? "" : "is-failing"}` }, redis.is_up ? "connected" : "cannot be reached"), "Redis"],
      [`${redis.mean_ms.toFixed(2)} ms`, "a decision"],
      [count(redis.errors), "failed decisions in a minute"],
    ];
    const nodes = redis.nodes.map((node) => [
      clean(node.address || "Redis"),
      [node.memory_bytes === null ? "–" : bytes(node.memory_bytes)],
      [node.operations_per_second === null ? "–" : `${count(node.operations_per_second)}/s`, "soft"],
    ]);
    parts.push(element("h3", {}, "Redis"), ...facts.slice(0, 1).map(([value]) => element("p", {}, value, ` · ${facts[1][0]} ${facts[1][1]} · ${facts[2][0]} ${facts[2][1]}`)));
    if (nodes.length) parts.push(table([["Server", ""], ["Memory", "number"], ["Commands", "number"]], nodes, ""));
  } else {
    parts.push(element("h3", {}, "Store"), element("p", {}, `memory of this process, ${plural(status.store.memory_keys, "key")}`));
  }
  show("behind", ...parts);
}

function render() {
  if (!status) return;
  for (const id of ["overview", "panels"]) byId(id).hidden = false;
  renderHead();
  renderOverview();
  renderLimits();
  renderClients();
  renderLists();
  renderBehind();
  if (open && open.kind === "limit") drawLimit(open.name);
}

function openDialog(kind, name) {
  open = { kind, name };
  byId("detail-title").textContent = clean(name);
  if (!byId("detail").open) byId("detail").showModal();
}

function drawLimit(name) {
  const limit = status.limits.find((one) => one.name === name);
  if (!limit) return show("detail-body", element("p", { class: "empty" }, "This limit is gone since the last reload."));
  const counted = limit.per.length ? `per ${limit.per.join(", ")}` : "one budget for all";
  const span = spanOf(limit.series);
  const quota = limit.used === null || limit.rate === null ? 0 : limit.rate * span.scale;
  const { admitted = [], refused = [], would_refuse: observed = [] } = span.values;
  const over = refused.map((value, at) => value + (observed[at] || 0));
  const label = `${clean(name)} over time: in the last minute ${limit.minute.admitted} admitted, ${limit.minute.refused} refused`;
  const about = [limit.algorithm, `${count(limit.of)} at most`, counted, limit.mode];
  if (limit.rate !== null) about.push(`${limit.rate < 1 ? `${(limit.rate * 60).toPrecision(2)}/min` : `${compact.format(limit.rate)}/s`} in the long run`);
  if (limit.observed) about.push("only observed");
  const near = status.clients.near.filter((one) => one.limit === name).map((one) => [
    clientLink(one, "detail near"),
    bar([[one.left === 0 ? "refused" : "", one.of - one.left]], one.of),
    `${count(one.left)} of ${count(one.of)}`,
  ]);
  const decided = Object.entries(limit.decided_by).filter(([, times]) => times > 0);
  const keys = [element("span", { class: "key" }, "admitted"), element("span", { class: "key refused" }, limit.observed ? "would be refused" : "refused")];
  if (quota) keys.push(element("span", { class: "key line" }, "quota"));
  const facts = [`${count(limit.total.admitted)} admitted and ${count(limit.total.refused + limit.total.would_refuse)} refused since the start`];
  if (limit.used !== null) facts.push(`${percent(100 * limit.used)} % of the shared budget in use`);
  if (decided.length) facts.push(`decided by ${decided.map(([who, times]) => `${who.replace("_", " ")} (${count(times)})`).join(", ")}`);
  show(
    "detail-body",
    element("p", { class: "soft" }, about.join(" · ")),
    element("h3", {}, ...keys),
    element("div", { class: "chart" }, ...chart([["", admitted], ["refused", over]], span.length, { ...span, quota, label })),
    element("p", {}, `${facts.join("; ")}.`),
    element("h3", {}, "Near this limit"),
    table([["Client", ""], ["", "graph"], ["Left", "number"]], near, "Nobody has used four fifths of it."),
  );
}

function showLimit(name) {
  openDialog("limit", name);
  drawLimit(name);
}

async function showClient(name, method, path) {
  openDialog("client", name);
  if (!method) show("detail-body", element("p", { class: "empty" }, "Reading the budgets…"));
  let report;
  try {
    const answer = await fetch(`/clients/${encodeURIComponent(name)}${path || ""}`, { method: method || "GET", credentials: "same-origin" });
    report = await answer.json();
    if (!answer.ok) throw new Error(report.detail || `status ${answer.status}`);
  } catch (error) {
    return show("detail-body", element("p", { class: "empty" }, clean(error.message)));
  }
  if (!open || open.name !== name) return;
  const now = Date.now() / 1000;
  const rows = report.limits.map((limit) => [
    clean(limit.route ? `${limit.name} on ${limit.route}` : limit.name),
    bar([[limit.allowed ? "" : "refused", limit.limit - limit.remaining]], limit.limit),
    [`${count(limit.remaining)} of ${count(limit.limit)}`, limit.allowed ? "" : "hot"],
    [limit.retry_after > 0 ? `in ${lasting(limit.retry_after)}` : "now", limit.allowed ? "soft" : "hot"],
    [limit.remaining < limit.limit ? `in ${lasting(Math.max(1, limit.reset - now))}` : "–", "soft"],
  ]);
  const columns = [["Limit", ""], ["", "graph optional"], ["Left", "number"], ["Next", "number short"], ["All back", "number short"]];
  const notes = [];
  if (report.without_store) notes.push(`${report.without_store}: these are this gateway's own numbers`);
  if (report.plan) notes.push(`plan ${report.plan}`);
  if (report.overridden) notes.push(`override for ${report.overridden.by}: ${report.overridden.does}`);
  const alone = report.limits.filter((limit) => limit.this_gateway_only).map((limit) => limit.name);
  if (alone.length) notes.push(`counted by this gateway alone: ${[...new Set(alone)].join(", ")}`);
  if (report.unlimited.length) notes.push(`unlimited: ${report.unlimited.join(", ")}`);
  if (report.shared.length) notes.push(`shared with others: ${report.shared.join(", ")}`);
  if (report.unlisted.length) notes.push(`known of requests only: ${report.unlisted.map((one) => one.name).join(", ")}`);
  const own = status.refusals.recent.filter((refusal) => refusal.client === name).slice(0, 8);
  const last = own.map((refusal) => [[clock(refusal.at), "time"], clean(refusal.limit), [clean(refusal.route), "soft"], [`in ${lasting(refusal.retry_after)}`, "soft"]]);
  const parts = [table(columns, rows, "No limit counts this client alone.")];
  if (notes.length) parts.push(element("p", { class: "hint" }, clean(notes.join("; "))));
  parts.push(element("h3", {}, "Last refusals"), table([["Time", "time"], ["Limit", ""], ["Route", ""], ["Again", "number short"]], last, "None among the latest."));
  if (rights !== "read") {
    const reset = element("button", { type: "button", class: "act", click: () => confirmReset(reset, name) }, "Reset budgets");
    parts.push(reset);
  }
  if (mayWrite) {
    const override = () => {
      byId("detail").close();
      begin(name);
    };
    parts.push(element("button", { type: "button", class: "act", click: override }, "Set an override"));
  }
  show("detail-body", ...parts);
}

function confirmReset(button, name) {
  if (button.dataset.sure) return showClient(name, "POST", "/reset");
  button.dataset.sure = "yes";
  button.textContent = "Give this client its full budgets?";
}

/** Puts the values of one second behind those that are known. */
function extend(series, second) {
  if (!series) return;
  for (const [name, values] of Object.entries(series.seconds)) {
    values.push(second[name] || 0);
    if (values.length > SECONDS) values.shift();
  }
}

function take(next) {
  if (!status || next.tick !== status.tick + 1) return next.tick === (status && status.tick) ? undefined : load();
  next.requests.series = status.requests.series;
  extend(next.requests.series, next.requests.second);
  const known = new Map(status.limits.map((limit) => [limit.name, limit.series]));
  for (const limit of next.limits) {
    limit.series = known.get(limit.name);
    extend(limit.series, limit.second);
  }
  status = next;
  lastSeen = Date.now();
  render();
}

async function load() {
  const answer = await fetch("/status.json", { credentials: "same-origin" });
  if (!answer.ok) return;
  status = await answer.json();
  lastSeen = Date.now();
  render();
}

function follow() {
  if (source) source.close();
  clearInterval(polling);
  source = new EventSource("/events");
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onerror = () => {
    // Closed for good: as many pages are open as may be. Otherwise the browser asks again.
    if (source.readyState === EventSource.CLOSED) polling = setInterval(() => load().catch(() => {}), 2000);
  };
}

byId("detail").addEventListener("close", () => { open = null; });
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    if (source) source.close();
    clearInterval(polling);
  } else {
    load().catch(() => {});
    follow();
  }
});
setInterval(() => { if (status) renderHead(); }, 2500);
load().catch(() => {});
follow();
