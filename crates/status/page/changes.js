// Overrides on the status page: the list, and the form that sets and clears them. Each change names the version that it replaces. So the
// gateway refuses a change if the user has not seen the override in force. Then the page shows that override first.
"use strict";

const form = document.getElementById("change");
const rights = document.body.dataset.rights;
const mayWrite = rights === "write";
let replaced = null; // the shown override that the next change replaces: { name, version }
let offered = ""; // the plans in the menu, as JSON

/** Shows a text beside the form. */
function say(text, style) {
  const place = byId("change-answer");
  place.className = style || "";
  place.textContent = clean(text);
}

/** Describes an override in one line: its action, end, author and reason. */
function told(one) {
  const limits = Object.entries(one.limits || {}).map(([name, numbers]) => ` ${name} '${numbers}'`);
  const does = one.does || (one.plan ? `plan ${one.plan}` : one.action + limits.join(""));
  return `${does} until ${one.until}${one.by ? `, by ${one.by}` : ""}${one.reason ? ` (${one.reason})` : ""}`;
}

function replaces(one) {
  replaced = one && { name: one.name, version: one.version };
  byId("change-title").textContent = replaced ? `Change the override of ${clean(replaced.name)}` : "Set an override";
  byId("change-stop").hidden = !replaced;
}

/** Adapts the form to the action: a clear has no duration. */
function fit() {
  const clears = byId("change-action").value === "clear";
  byId("change-for").disabled = clears;
  byId("change-for").required = !clears;
  byId("change-send").textContent = clears ? "Clear override" : "Set override";
}

/** Whether the form has any text. */
const isFilled = () => ["change-name", "change-for", "change-reason"].some((id) => byId(id).value !== "");

function empty() {
  form.reset();
  replaces(null);
  fit();
}

/** Fills the form for a client or network. A name with line breaks is refused: the field would drop them, and so name another client. */
function begin(name, one, clears) {
  empty();
  const field = byId("change-name");
  field.value = name;
  if (field.value !== name) {
    field.value = "";
    say("This name has a character that no override can have.", "bad");
  } else {
    say("");
    if (one) {
      replaces(one);
      byId("change-action").value = clears ? "clear" : one.does;
      fit();
      say(`In force: ${told(one)}.`);
    }
  }
  form.scrollIntoView({ block: "nearest" });
  byId(clears ? "change-reason" : "change-action").focus();
}

/** Calls the admin port. Returns the answer, and its JSON document. */
async function ask(name, method, headers, body) {
  const answer = await fetch(`/overrides/${encodeURIComponent(name)}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    body: body && JSON.stringify(body),
    credentials: "same-origin",
  });
  return [answer, await answer.json().catch(() => ({}))];
}

/** Shows the override in force for a name, so that the next change replaces it. Without an override, shows the text `nothing`. */
async function see(name, before, after, nothing) {
  const [answer, one] = await ask(name, "GET", {});
  replaces(answer.ok ? one : null);
  if (answer.status === 404) return say(nothing, "hot");
  if (!answer.ok) return say(`Not changed: ${one.detail || `status ${answer.status}`}`, "bad");
  // The name as the gateway writes it: `ip:10.0.0.1` becomes `10.0.0.1`.
  byId("change-name").value = one.name;
  return say(`${before}In force: ${told(one)}. ${after}`, "hot");
}

async function change() {
  const name = byId("change-name").value;
  const action = byId("change-action").value;
  const reason = byId("change-reason").value.trim();
  const clears = action === "clear";
  if (!reason) return say("Say why.", "bad");
  // The shown override has another name, so it is not replaced.
  if (replaced && replaced.name !== name) replaces(null);
  if (clears && !replaced) return see(name, "", "Press again to clear it.", `No override of the name ${name} is in force.`);
  const condition = replaced ? { "if-match": `"${replaced.version}"` } : { "if-none-match": "*" };
  const what = action.startsWith("plan ") ? { plan: action.slice(5) } : { action };
  const body = clears ? { reason } : { ...what, for: byId("change-for").value.trim(), reason };
  const [answer, one] = await ask(name, clears ? "DELETE" : "PUT", condition, body);
  if (answer.ok) {
    empty();
    const ends = status && status.overrides.kept === "process" ? " It ends with this process: overrides_file is not set." : "";
    const doubt = one.note ? ` But ${one.note}.` : "";
    return say(clears ? `${one.name}: ${told(one)} is cleared.` : `${one.name}: ${told(one)}.${doubt}${ends}`, doubt ? "hot" : "");
  }
  if (answer.status !== 412) return say(`Not changed: ${one.detail || `status ${answer.status}`}`, "bad");
  const again = clears ? "Press again to clear it." : "Press again to replace it.";
  const gone = clears ? "The override was cleared, or has ended." : "Not changed: the override was cleared, or has ended. Press again to set it.";
  return see(name, "Not changed: another override is in force than was shown. ", again, gone);
}

async function send(event) {
  event.preventDefault();
  const button = byId("change-send");
  if (button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  try {
    await change();
  } catch (error) {
    say(`No answer: ${error.message}. It may have been changed.`, "bad");
  }
  button.removeAttribute("aria-busy");
}

/** Fills the menu with the plans and the other actions. */
function offer(plans) {
  const now = JSON.stringify(plans);
  if (offered === now) return;
  offered = now;
  const select = byId("change-action");
  const chosen = select.value;
  const options = [["", "choose"], ...plans.map((name) => [`plan ${name}`, `plan ${name}`]), ["exempt", "exempt"], ["block", "block"], ["clear", "clear"]];
  select.replaceChildren(...options.map(([value, text]) => element("option", { value }, clean(text))));
  select.value = options.some(([value]) => value === chosen) ? chosen : "";
}

/** Makes a button that fills the form with an override of the list. */
function act(text, one, clears) {
  const made = element("button", { type: "button", class: "link", click: () => begin(one.name, one, clears) }, text);
  made.setAttribute("aria-label", `${text} the override of ${clean(one.name)}`);
  made.dataset.key = `${text} ${one.name}`;
  return made;
}

function renderOverrides() {
  const { count: inForce, latest, plans } = status.overrides;
  byId("overrides-panel").hidden = inForce === 0 && !mayWrite;
  if (mayWrite) offer(plans);
  const rows = latest.map((one) => {
    const whole = (text) => element("span", { title: clean(text) }, clean(text));
    const until = element("span", { title: one.until }, one.until.replace(/\.\d+Z$/, "Z"));
    const cells = [whole(one.name), whole(one.does), [until, "soft"], [whole(one.by), "soft"], [whole(one.reason), "soft"]];
    return mayWrite ? [...cells, act("Change", one, false), act("Clear", one, true)] : cells;
  });
  const columns = [["Name", ""], ["Does", ""], ["Until", "optional"], ["By", "optional"], ["Reason", "optional"]];
  const acts = [["Change", "tight"], ["Clear", "tight"]];
  show("overrides", table(mayWrite ? [...columns, ...acts] : columns, rows, "No override is in force."));
  show("overrides-count", inForce > latest.length ? `the latest ${latest.length} of ${count(inForce)}` : count(inForce));
}

form.hidden = !mayWrite;
form.addEventListener("submit", send);
document.getElementById("change-action").addEventListener("change", fit);
document.getElementById("change-stop").addEventListener("click", () => {
  empty();
  say("");
});
