// The panels of the status page, which show the last document.
"use strict";

const FEW = 12; // clients in a list at first
const shown = { by: "refused", window: "minute", span: "seconds", all: false };

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

function pick(name, value) {
  shown[name] = value;
  render();
}

/** Shows the state of the gateway, or the reason why no state is shown. */
function renderTrouble() {
  const words = { ok: "Healthy", warning: "Needs attention", failing: "Failing" };
  const isLate = status !== null && Date.now() - lastSeen > 5000;
  const state = status && !trouble && !isLate ? status.health.state : "";
  const word = trouble ? trouble.word : isLate ? "No answer, reconnecting" : words[state] || state || "Connecting";
  const pill = byId("health");
  pill.className = `pill ${trouble ? "warning" : state}`;
  if (pill.textContent !== word) pill.textContent = word;
  const said = trouble ? trouble.text : "";
  if (byId("trouble-text").textContent !== said) byId("trouble-text").textContent = said;
  byId("trouble").hidden = !trouble;
  if (trouble) byId("trouble-act").textContent = trouble.act;
}

function renderHead() {
  renderTrouble();
  const { gateway, health, untrusted_proxies: proxies } = status;
  const facts = [`version ${gateway.version}`, `up ${lasting(gateway.uptime_seconds)}`, plural(gateway.connections, "connection")];
  if (gateway.memory_bytes) facts.push(bytes(gateway.memory_bytes));
  show("facts", ...facts.map((fact) => element("span", {}, fact)));
  const reasons = health.reasons.map((reason) => [health.state, reason]).concat(proxies.map((proxy) => ["warning", proxy.text]));
  byId("reasons").hidden = reasons.length === 0;
  show("reasons", ...reasons.map(([style, text]) => element("li", { class: style }, clean(text))));
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

/** Returns the first `FEW` clients, or all clients if the user chose so. */
const listed = (clients) => (shown.all ? clients : clients.slice(0, FEW));

/** Makes a button that switches between all clients and `FEW` clients. Makes none if there are no more than `FEW`. */
function more(clients) {
  if (clients.length <= FEW) return [];
  const text = shown.all ? "Show fewer" : `Show all ${clients.length}`;
  const button = element("button", { type: "button", class: "act", "aria-controls": "clients", click: () => pick("all", !shown.all) }, text);
  button.dataset.key = "all";
  return [button];
}

function renderClients() {
  byId("clients").classList.toggle("long", shown.all);
  choice("by", [["refused", "Refused"], ["admitted", "Most use"], ["near", "Near a limit"]], shown.by, (value) => pick("by", value));
  choice("window", [["minute", "Last minute"], ["start", "Since start"]], shown.window, (value) => pick("window", value));
  byId("window").hidden = shown.by === "near";
  if (shown.by === "near") {
    const rows = listed(status.clients.near).map((near) => [
      clientLink(near, `near ${near.limit}`),
      [clean(near.limit), "soft"],
      bar([[near.left === 0 ? "refused" : "", near.of - near.left]], near.of),
      `${count(near.left)} of ${count(near.of)}`,
    ]);
    const columns = [["Client", ""], ["Limit", "optional"], ["", "graph"], ["Left", "number amount"]];
    const keys = status.limits.reduce((sum, limit) => sum + limit.near_keys, 0);
    const empty = keys ? `${plural(keys, "client")} near a limit, and none of them is listed.` : "No client has used four fifths of a limit.";
    show("clients", table(columns, rows, empty));
    show("clients-more", ...more(status.clients.near));
    return;
  }
  const found = status.clients[shown.window][shown.by];
  const rows = listed(found.top).map((client) => [
    clientLink(client, "client"),
    bar([[shown.by === "refused" ? "refused" : "", client.at_least]], found.top[0].at_least),
    [ranged(client), shown.by === "refused" ? "hot" : ""],
    [`${percent(share(client.at_least, found.total))} %`, "soft"],
  ]);
  const what = shown.by === "refused" ? "Refused" : "Admitted";
  const empty = shown.by === "refused" ? "No client was refused." : "No request was charged to a limit.";
  show("clients", table([["Client", ""], ["", "graph"], [what, "number"], ["Share", "number short optional"]], rows, empty));
  show("clients-more", ...more(found.top));
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
  const columns = [["Time", "time"], ["Client", ""], ["Limit", "label"], ["Route", "label optional"]];
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
  const states = { healthy: "", failing: "is-failing", ejected: "is-warning", unhealthy: "is-failing" };
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
    const state = element("span", { class: `state ${redis.is_up ? "" : "is-failing"}` }, redis.is_up ? "connected" : "cannot be reached");
    const facts = ` · ${redis.mean_ms.toFixed(2)} ms a decision · ${count(redis.errors)} failed decisions in a minute`;
    const nodes = redis.nodes.map((node) => [
      clean(node.address || "Redis"),
      [node.memory_bytes === null ? "–" : bytes(node.memory_bytes)],
      [node.operations_per_second === null ? "–" : `${count(node.operations_per_second)}/s`, "soft"],
    ]);
    parts.push(element("h3", {}, "Redis"), element("p", {}, state, facts));
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

byId("trouble-act").addEventListener("click", () => location.reload());
