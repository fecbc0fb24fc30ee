// The dialog of the status page: one limit, or one client.
"use strict";

let open = null; // the subject of the dialog: { kind, name }
const USED = [10, 25, 50, 80, 90, 100]; // the upper bounds of `used_shares`, in percent
let asked = 0; // the number of the last call: an answer to an earlier call is dropped

function openDialog(kind, name) {
  open = { kind, name };
  byId("detail-title").textContent = clean(name);
  if (!byId("detail").open) byId("detail").showModal();
}

/** Formats a rate, per minute if it is below one a second. */
const units = (rate) => (rate < 1 ? `${Number((rate * 60).toPrecision(2))} units/min` : `${compact.format(rate)} units/s`);

/** Lists the nearest clients of a limit, with the number of further clients near it. This number is up to ten seconds old. */
function nearList(rows, keys) {
  const columns = [["Client", ""], ["", "graph"], ["Left", "number amount"]];
  const more = keys - rows.length;
  if (more <= 0) return [table(columns, rows, "No client has used four fifths of it.")];
  const note = rows.length ? `${whole.format(more)} more ${more === 1 ? "is" : "are"} near it, and not listed.` : `${whole.format(more)} ${more === 1 ? "is" : "are"} near it, and none of them is listed.`;
  return [rows.length ? table(columns, rows, "") : null, element("p", { class: "hint" }, note)].filter((part) => part !== null);
}

/** Lists the verdicts of the last minute by the used part of the budget. Lists nothing without verdicts. */
function usedList(counts) {
  const most = Math.max(...counts);
  if (!(most > 0)) return [];
  const rows = counts.map((times, at) => [`up to ${USED[at]} %`, bar([["", times]], most), count(times)]);
  return [element("h3", {}, "Used part of the budget"), table([["After a request", ""], ["", "graph"], ["Requests", "number"]], rows, "")];
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
  if (limit.rate !== null) about.push(`${units(limit.rate)} in the long run`);
  if (limit.observed) about.push("only observed");
  const near = status.clients.near.filter((one) => one.limit === name).map((one) => [
    clientLink(one, "detail near"),
    bar([[one.left === 0 ? "refused" : "", one.of - one.left]], one.of),
    `${count(one.left)} of ${count(one.of)}`,
  ]);
  const decided = Object.entries(limit.decided_by).filter(([, times]) => times > 0);
  const keys = [element("span", { class: "key" }, "admitted"), element("span", { class: "key refused" }, limit.observed ? "would be refused" : "refused")];
  if (quota) keys.push(element("span", { class: "key line", title: "The chart counts requests. They compare with the quota if each costs 1." }, `quota: ${units(limit.rate)}`));
  const facts = [`${count(limit.total.admitted)} admitted and ${count(limit.total.refused + limit.total.would_refuse)} refused since the start`];
  if (Number.isFinite(limit.level)) facts.push(`a member of weight 1 may use ${count(Math.round(limit.level))} in a window`);
  if (limit.used !== null) facts.push(`${percent(100 * limit.used)} % of the shared budget in use`);
  if (limit.clients) facts.push(`about ${plural(limit.clients, "client")} in the last minute`);
  if (decided.length) facts.push(`decided by ${decided.map(([who, times]) => `${who.replace("_", " ")} (${count(times)})`).join(", ")}`);
  show(
    "detail-body",
    element("p", { class: "soft" }, about.join(" · ")),
    element("h3", {}, ...keys),
    element("div", { class: "chart" }, ...chart([["", admitted], ["refused", over]], span.length, { ...span, unit: ` requests${span.unit}`, quota, label })),
    element("p", {}, `${facts.join("; ")}.`),
    ...usedList(limit.used_shares),
    element("h3", {}, "Near this limit"),
    ...nearList(near, limit.near_keys),
  );
}

function showLimit(name) {
  openDialog("limit", name);
  drawLimit(name);
}

const isShown = (name, question) => open !== null && open.kind === "client" && open.name === name && asked === question;

async function showClient(name, method, path) {
  openDialog("client", name);
  if (!method) show("detail-body", element("p", { class: "empty" }, "Reading the budgets…"));
  asked += 1;
  const own = asked;
  let report;
  try {
    const answer = await fetch(`/clients/${encodeURIComponent(name)}${path || ""}`, { method: method || "GET", credentials: "same-origin" });
    report = await answer.json();
    if (!answer.ok) throw new Error(report.detail || `status ${answer.status}`);
  } catch (error) {
    // Drops the error if the user has opened another dialog.
    if (isShown(name, own)) show("detail-body", element("p", { class: "empty" }, clean(error.message)));
    return;
  }
  if (!isShown(name, own)) return;
  const now = Date.now() / 1000;
  const rows = report.limits.map((limit) => [
    clean(limit.route ? `${limit.name} on ${limit.route}` : limit.name),
    bar([[limit.allowed ? "" : "refused", limit.limit - limit.remaining]], limit.limit),
    [`${count(limit.remaining)} of ${count(limit.limit)}`, limit.allowed ? "" : "hot"],
    [limit.retry_after > 0 ? `in ${lasting(limit.retry_after)}` : "now", limit.allowed ? "soft" : "hot"],
    [limit.remaining < limit.limit ? `in ${lasting(Math.max(1, limit.reset - now))}` : "–", "soft"],
  ]);
  const columns = [["Limit", ""], ["", "graph optional"], ["Left", "number amount"], ["Next", "number short"], ["All back", "number short"]];
  const notes = [];
  if (report.without_store) notes.push(`${report.without_store}: these are this gateway's own numbers`);
  if (report.plan) notes.push(`plan ${report.plan}`);
  if (report.overridden) notes.push(`override for ${report.overridden.by}: ${report.overridden.does}`);
  const alone = report.limits.filter((limit) => limit.this_gateway_only).map((limit) => limit.name);
  if (alone.length) notes.push(`counted by this gateway alone: ${[...new Set(alone)].join(", ")}`);
  if (report.unlimited.length) notes.push(`unlimited: ${report.unlimited.join(", ")}`);
  if (report.shared.length) notes.push(`shared with others: ${report.shared.join(", ")}`);
  if (report.unlisted.length) notes.push(`known of requests only: ${report.unlisted.map((one) => one.name).join(", ")}`);
  const refusals = status.refusals.recent.filter((refusal) => refusal.client === name).slice(0, 8);
  const last = refusals.map((refusal) => [[clock(refusal.at), "time"], clean(refusal.limit), [clean(refusal.route), "soft"], [`in ${lasting(refusal.retry_after)}`, "soft"]]);
  const parts = [table(columns, rows, "No limit counts this client alone.")];
  if (notes.length) parts.push(element("p", { class: "hint" }, clean(notes.join("; "))));
  if (report.keys) {
    const used = (key) => (key.last_used ? `${lasting(Math.max(0, now - key.last_used))} ago` : "not since the start");
    const ends = (key) => (key.expires ? (key.expires <= now ? "expired" : `in ${lasting(key.expires - now)}`) : "never");
    const keys = report.keys.map((key) => [clean(key.hash), [used(key), "soft"], [ends(key), "soft"]]);
    parts.push(table([["API key", ""], ["Used", "number"], ["Expires", "number"]], keys, ""));
  }
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

/** Shows why a request was refused, by the ID in its answer. */
async function showWhy(id) {
  openDialog("why", id);
  show("detail-body", element("p", { class: "empty" }, "Looking for the refusal…"));
  asked += 1;
  const own = asked;
  let body;
  try {
    const answer = await fetch(`/why/${encodeURIComponent(id)}`, { credentials: "same-origin" });
    const refused = await answer.json();
    if (!answer.ok) throw new Error(refused.detail || `status ${answer.status}`);
    const facts = [
      ["Time", new Date(refused.at).toLocaleString("en-GB")],
      ["Status", refused.status === null ? "no answer" : String(refused.status)],
      ["Outcome", refused.outcome],
      ["Error", refused.error],
      ["Client", refused.client],
      ["Route", refused.route],
      ["Limit", refused.limit],
      ["Denied by", refused.denied_by],
      ["Again", refused.retry_after === null ? null : `after ${lasting(refused.retry_after)}`],
    ];
    const rows = facts.filter(([, fact]) => fact !== null).map(([name, fact]) => [[name, "soft"], clean(fact)]);
    body = table([["Fact", ""], ["Value", ""]], rows, "");
  } catch (error) {
    body = element("p", { class: "empty" }, clean(error.message));
  }
  if (open !== null && open.kind === "why" && asked === own) show("detail-body", body);
}

byId("why").addEventListener("submit", (event) => {
  event.preventDefault();
  showWhy(byId("why-id").value.trim());
});

byId("detail").addEventListener("close", () => { open = null; });
