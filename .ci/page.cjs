// What .ci/page runs: a gateway with servers and a Redis of its own, clients, and the status page in a browser. One line a check.
"use strict";

const { spawn } = require("node:child_process");
const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");

const [, , binary, modules, shots] = process.argv;
const load = require("node:module").createRequire(path.resolve(modules, "node_modules", "x.js"));
const puppeteer = load("puppeteer-core");
const axe = fs.readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

const given = require("./page-given.cjs");

const SINGLES = 10_000;
const TOKENS = { ops: "write", viewer: "read" };
const HOSTILE = ["<img src=x onerror=alert(1)>", "\u202egnp.exe", "a\u0085b", "gree\u200bdy"];
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tidegate-page-"));
const processes = [];
const errors = []; // of the page
let failed = 0;

function check(what, holds, shown) {
  failed += holds ? 0 : 1;
  console.log(`${holds ? "ok  " : "NOT "} ${what}${shown === undefined || shown === "" ? "" : `: ${shown}`}`);
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** A port that is free now. */
const port = () =>
  new Promise((done) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port: free } = server.address();
      server.close(() => done(free));
    });
  });

function start(command, ...options) {
  const child = spawn(command, options, { cwd: folder, stdio: ["ignore", "ignore", fs.openSync(path.join(folder, "log"), "a")] });
  processes.push(child);
  return child;
}

async function until(what, holds) {
  for (let tries = 0; tries < 300; tries += 1) {
    if (await holds().catch(() => false)) return;
    await pause(100);
  }
  throw new Error(`not within 30 s: ${what}\n${fs.readFileSync(path.join(folder, "log"), "utf8").slice(-2000)}`);
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 24 });
const sockets = {};

/** Asks the gateway as a user; the status of the answer. */
function ask(target, user) {
  const headers = { "x-user-id": Buffer.from(user).toString("latin1") };
  return new Promise((done) => {
    const request = http.request({ host: "127.0.0.1", port: sockets.gateway, path: target, agent, headers }, (answer) => {
      answer.resume().on("end", () => done(answer.statusCode));
    });
    request.on("error", () => done(0)).end();
  });
}

/** Runs this so often, with at most 20 at a time. */
async function times(number, each) {
  let next = 0;
  const worker = async () => {
    while (next < number) {
      next += 1;
      await each(next);
    }
  };
  await Promise.all(Array.from({ length: 20 }, worker));
}

/** The token of this name, as the admin port takes it; each is its name twice. */
const bearer = (name) => ({ authorization: `Bearer ${name}-${name}` });

function token([name, role]) {
  const hash = crypto.createHash("sha256").update(`${name}-${name}`).digest("hex");
  return `{ name: ${name}, hash: "sha256:${hash}", role: ${role} }`;
}

const yaml = () => `
listen: 127.0.0.1:${sockets.gateway}
admin: { address: "127.0.0.1:${sockets.admin}", tokens: [${Object.entries(TOKENS).map(token)}] }
trusted_proxies: [127.0.0.1]
clients: [{ user_id: { header: X-User-Id } }, { ip: {} }]
log: { access: false }
store: { redis: { url: "redis://127.0.0.1:${sockets.redis}", timeout: 1s } }
limits:
  per-client: { token_bucket: { capacity: 20, refill: 2/s } }
  bulk: { fixed_window: { limit: 100000, window: 1h } }
  search: { fixed_window: { limit: 400, window: 1m }, per: [] }
  login-guard: { sliding_window_log: { limit: 3, window: 10m }, block: 5m }
plans:
  gold: { per-client: { token_bucket: { capacity: 2000, refill: 200/s } } }
upstreams:
  api: { servers: [http://127.0.0.1:${sockets.one}, http://127.0.0.1:${sockets.other}] }
routes:
  - { name: search, path: /search/**, upstream: api, limits: [per-client, search] }
  - { name: login, path: /login, upstream: api, limits: [login-guard] }
  - { name: bulk, path: /bulk/**, upstream: api, limits: [bulk] }
  - { name: rides, path: /**, upstream: api, limits: [per-client] }
`;

async function gateway() {
  for (const name of ["gateway", "admin", "redis", "one", "other"]) sockets[name] = await port();
  const answer = (request, response) => {
    request.resume();
    setTimeout(() => response.end("ok\n"), 3 * Math.random());
  };
  for (const name of ["one", "other"]) http.createServer(answer).listen(sockets[name], "127.0.0.1");
  const redis = start("redis-server", "--port", String(sockets.redis), "--save", "", "--bind", "127.0.0.1");
  fs.writeFileSync(path.join(folder, "gateway.yaml"), yaml());
  const config = path.join(folder, "gateway.yaml");
  await until("Redis answers", () => new Promise((done, no) => net.connect(sockets.redis, "127.0.0.1", () => done(true)).on("error", no)));
  const child = start(path.resolve(binary), "run", "-c", config);
  await until("the gateway is ready", async () => (await fetch(`http://127.0.0.1:${sockets.admin}/readyz`)).ok);
  return { child, config, redis };
}

/** What axe-core says of the page as it is. */
async function accessible(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const shown = violations.map((one) => `${one.id} (${one.nodes.length}): ${one.nodes[0].html.slice(0, 100)}`);
  check(`axe-core, ${where}`, violations.length === 0, `${violations.length} violations ${shown.join("; ")}`);
}

const first = (page, name) =>
  page.waitForFunction((expected) => document.querySelector("#clients tbody .link")?.textContent === expected, { timeout: 15_000, polling: 50 }, name);

const admin = (path, options) => fetch(`http://127.0.0.1:${sockets.admin}${path}`, { ...options, headers: { ...bearer("ops"), ...options?.headers } });

const document_ = async () => (await admin("/status.json")).json();

/** Whether the event with these words is on the page. */
const event = (page, words) =>
  page.waitForFunction((text) => document.getElementById("events").textContent.includes(text), { timeout: 15_000 }, words);

const within = (client, known) => client && client.at_least <= known && known <= client.at_most;

async function greedy(page) {
  const begun = Date.now();
  await times(SINGLES, (n) => ask("/bulk/x", `single-${n}`));
  console.log(`     ${SINGLES} clients in ${Date.now() - begun} ms`);
  let refused = 0;
  let firstRefusal = 0;
  let seen = 0;
  const standsFirst = first(page, "user_id:greedy").then(() => { seen = Date.now(); });
  await times(300, async () => {
    if ((await ask("/ride", "greedy")) !== 429) return;
    refused += 1;
    firstRefusal = firstRefusal || Date.now();
  });
  await standsFirst;
  check("the greedy client stands first within 3 s of its first refusal", seen - firstRefusal < 3000, `${seen - firstRefusal} ms`);
  await times(500, () => ask("/bulk/x", "heavy"));
  await until("all is counted", async () => (await document_()).clients.start.admitted.total >= SINGLES + 500);
  const { clients } = await document_();
  const [most] = clients.start.refused.top;
  check("its refusals are within the stated error", most.name === "user_id:greedy" && within(most, refused), `${refused} in ${most.at_least} to ${most.at_most}`);
  const heavy = clients.start.admitted.top[0];
  check("so is the use of whoever uses most", heavy.name === "user_id:heavy" && within(heavy, 500), `500 in ${heavy.at_least} to ${heavy.at_most}`);
}

async function budgets(page) {
  await page.evaluate(() => [...document.querySelectorAll("#clients .link")].find((one) => one.textContent === "user_id:greedy").click());
  await page.waitForSelector("#detail[open] tbody");
  const text = await page.$eval("#detail", (detail) => detail.textContent);
  check("its row leads to its budgets and refusals", text.includes("per-client") && text.includes("bulk") && text.includes("Last refusals"));
  await accessible(page, "a client");
  if (shots) await page.screenshot({ path: path.join(shots, "client.png") });
  await page.keyboard.press("Escape");
  await page.evaluate(() => [...document.querySelectorAll("#limits .link")].find((one) => one.textContent === "search").click());
  await page.waitForSelector("#detail[open] .chart");
  // The gateway samples both every ten seconds.
  await page.waitForFunction(() => document.getElementById("detail").textContent.includes("Used part of the budget"), { timeout: 15_000 });
  const limit = await page.$eval("#detail", (detail) => detail.textContent);
  check("a limit has its clients, and the used part of their budgets", /about \d+ clients? in the last minute/.test(limit) && limit.includes("up to 100 %"));
  await accessible(page, "a limit");
  if (shots) await page.screenshot({ path: path.join(shots, "limit.png") });
  await page.keyboard.press("Escape");
  check("Escape closes it", (await page.$("#detail[open]")) === null);
}

/** Goes over the page with Tab; what cannot be reached. */
async function keyboard(page) {
  await page.evaluate(() => {
    document.activeElement.blur();
    window.reached = new Set();
    document.addEventListener("focusin", ({ target }) => window.reached.add(target.dataset.key || target.id || target.textContent));
  });
  const count = await page.evaluate(() => document.querySelectorAll("button, a, input, select, [tabindex]").length);
  for (let at = 0; at < count + 10; at += 1) await page.keyboard.press("Tab");
  const missed = await page.evaluate(() => {
    const all = [...document.querySelectorAll("button, a, input, select, [tabindex]")].filter((one) => one.checkVisibility());
    return all.map((one) => one.dataset.key || one.id || one.textContent).filter((name) => !window.reached.has(name) && !name.startsWith("refusal "));
  });
  check("the keyboard alone reaches all", missed.length === 0, missed.join(", ") || `${count} controls`);
  await page.focus("#clients .link");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#detail[open] tbody");
  check("Enter opens a client", true);
  await page.keyboard.press("Escape");
}

const answered = (page, words) =>
  page.waitForFunction((text) => document.getElementById("change-answer").textContent.includes(text), { timeout: 15_000 }, words);

const listed = (page, words) =>
  page.waitForFunction((text) => document.getElementById("overrides").textContent.includes(text), { timeout: 15_000 }, words);

/** Fills the form from its action on, by keyboard alone. */
async function fill(page, action, lasting, reason) {
  await page.keyboard.type(action);
  for (const text of [lasting, reason]) {
    if (text === undefined) continue;
    await page.keyboard.press("Tab");
    await page.keyboard.down("Control");
    await page.keyboard.press("a");
    await page.keyboard.up("Control");
    await page.keyboard.type(text);
  }
  await page.keyboard.press("Enter");
}

async function overriding(page) {
  const name = "user_id:scanner";
  await page.focus("#change-name");
  await page.keyboard.type(name);
  await page.keyboard.press("Tab");
  await fill(page, "block", "2h", HOSTILE[0]);
  await answered(page, `${name}: block until 20`);
  check("an override is set by keyboard", (await ask("/ride", "scanner")) === 403);
  await listed(page, HOSTILE[0]);
  check("it is on the list, its reason as text", (await page.evaluate(() => document.images.length)) === 0);
  await accessible(page, "with an override");
  if (shots) await (await page.$("section:has(#overrides)")).screenshot({ path: path.join(shots, "overrides.png") });

  // Another operator is faster.
  await page.focus(`#overrides [data-key="Change ${name}"]`);
  await page.keyboard.press("Enter");
  await answered(page, "In force: block until");
  const body = JSON.stringify({ plan: "gold", for: "1h", reason: "it was a test" });
  const other = await admin(`/overrides/${name}`, { method: "PUT", body });
  await fill(page, "exempt", "3h", "a load test");
  await answered(page, "Not changed: another override is in force than was shown. In force: plan gold until");
  const kept = await (await admin(`/overrides/${name}`)).json();
  check("a stale version is refused, and the other change is shown", other.ok && kept.plan === "gold", kept.plan);
  await page.keyboard.press("Enter");
  await answered(page, `${name}: exempt until 20`);
  check("the next try replaces what was shown", true);

  // As one that knows nothing of it.
  await page.focus("#change-name");
  await page.keyboard.type(name);
  await page.keyboard.press("Tab");
  await fill(page, "block", "1h", "unaware");
  await answered(page, "Not changed: another override");
  const same = await (await admin(`/overrides/${name}`)).json();
  check("a new override replaces none that was not shown", same.action === "exempt", same.action);
  await page.focus("#change-stop");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("change-name").value === "");

  await listed(page, "a load test");
  await page.focus(`#overrides [data-key="Clear ${name}"]`);
  await page.keyboard.press("Enter");
  await page.keyboard.type("done");
  await page.keyboard.press("Enter");
  await answered(page, "is cleared");
  check("it is cleared by keyboard", (await admin(`/overrides/${name}`)).status === 404);
  await event(page, "The override for user_id:scanner was cleared by ops");

  // The gateway writes this name in another way.
  await admin("/overrides/203.0.113.9", { method: "PUT", body });
  await page.focus("#change-name");
  await page.keyboard.type("ip:203.0.113.9");
  await page.keyboard.press("Tab");
  await fill(page, "block", "1h", "a scan");
  await answered(page, "Not changed: another override");
  await page.keyboard.press("Enter");
  await answered(page, "203.0.113.9: block until 20");
  check("a name that the gateway writes in another way is replaced, too", (await (await admin("/overrides/203.0.113.9")).json()).action === "block");
  await page.focus("#change-name");
  await page.keyboard.type("api_key:nobody");
  await page.keyboard.press("Tab");
  await fill(page, "exempt", "1h", "a typing error");
  await answered(page, "But no API key of this name is listed now.");
  for (const one of ["203.0.113.9", "api_key:nobody"]) await admin(`/overrides/${one}`, { method: "DELETE" });

  // From a client of the tables, and a name that a field would change.
  await page.evaluate(() => begin("user_id:a\nb"));
  const odd = await page.evaluate(() => [document.getElementById("change-name").value, document.getElementById("change-answer").textContent]);
  check("a name with a line break becomes no other name", odd[0] === "" && odd[1].includes("no override can have"), odd.join("|"));
  await page.evaluate(() => empty());
}

/** What somebody sees who may only look. */
async function looking(browser) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.authenticate({ username: "any", password: "viewer-viewer" });
  await page.goto(`http://127.0.0.1:${sockets.admin}/`);
  await page.waitForSelector("#limits table", { timeout: 15_000 });
  const shows = await page.evaluate(async () => {
    const options = { method: "PUT", body: JSON.stringify({ action: "block", for: "1h" }) };
    const refused = await fetch("/overrides/user_id:victim", options);
    return { form: document.getElementById("change").checkVisibility(), status: refused.status };
  });
  check("a token that may look gets no form, and 403", !shows.form && shows.status === 403, JSON.stringify(shows));
  await context.close();
}

async function hostile(page) {
  // They are not the first of those that are refused.
  await page.evaluate(() => pick("all", true));
  for (const name of HOSTILE) await times(5, () => ask("/login", name));
  await page.waitForFunction(() => ["clients", "refusals"].some((id) => document.getElementById(id).textContent.includes("<img src=x onerror=alert(1)>")), { timeout: 20_000 });
  const found = await page.evaluate(() => ({
    images: document.images.length,
    odd: /[\u0000-\u0008\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent),
  }));
  check("hostile names are text", found.images === 0 && !found.odd, JSON.stringify(found));
}

async function screenshots(page) {
  for (const [scheme, width] of [["light", 1280], ["dark", 1280], ["light", 390], ["dark", 390]]) {
    await page.setViewport({ width, height: width > 400 ? 900 : 844 });
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await pause(300);
    const place = width > 400 ? "wide" : "narrow";
    await accessible(page, `${scheme}, ${place}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(`nothing is wider than the window, ${scheme}, ${place}`, overflow <= 0, `${overflow} px`);
    const covered = await page.evaluate(() => {
      const boxes = [...document.querySelectorAll(".panel, #overview")].filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect());
      const cut = boxes.filter((box) => box.width < 300);
      return cut.length + boxes.filter((one, at) => boxes.slice(at + 1).some((other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom)).length;
    });
    check(`no panel is cut or covers another, ${scheme}, ${place}`, covered === 0, covered);
    const below = await page.evaluate(() => document.querySelector("#clients td").getBoundingClientRect().bottom - window.innerHeight);
    check(`who is refused most is on the first screen, ${scheme}, ${place}`, below <= 0, `${Math.round(below)} px`);
    if (shots) await page.screenshot({ path: path.join(shots, `${scheme}-${place}.png`), fullPage: width < 400 });
  }
  await page.setViewport({ width: 1280, height: 900 });
}

let moving = true;

/** Some traffic, so that the charts of screenshots have something to show. */
async function traffic() {
  const users = ["acme-web", "polite-app", "nightly-export", "mobile-ios", "mobile-android", "partner-7", "reports"];
  for (let at = 0; moving; at += 1) {
    for (let n = 0; n < 5 + (at % 17); n += 1) ask("/ride", users[(n * 7 + at) % users.length]);
    for (let n = 0; n < 4; n += 1) ask("/ride", "greedy");
    ask("/search/a", users[at % 7]);
    if (at % 4 === 0) ask("/login", "guesser");
    await pause(200);
  }
}

async function main() {
  const { child, config, redis } = await gateway();
  const home = `http://127.0.0.1:${sockets.admin}/`;
  const options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  const browser = await puppeteer.launch({ executablePath: "/usr/bin/chromium", args: options, headless: true });
  processes.push(browser.process());
  const page = await browser.newPage();
  const elsewhere = [];
  page.on("console", (message) => { if (["error", "warn", "warning"].includes(message.type())) errors.push(message.text()); });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("dialog", (dialog) => { errors.push("a dialog"); dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith(home)) elsewhere.push(request.url()); });
  await page.evaluateOnNewDocument(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (violation) => window.violations.push(violation.violatedDirective));
  });
  await page.setViewport({ width: 1280, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  await page.authenticate({ username: "any", password: "ops-ops" });
  await page.goto(home);
  await page.waitForSelector("#limits table", { timeout: 15_000 });

  if (shots) {
    fs.mkdirSync(shots, { recursive: true });
    traffic();
    await pause(30_000);
  } else {
    await greedy(page);
  }
  await ask("/search/a", "greedy");
  await times(40, () => ask("/ride", "greedy"));
  await first(page, "user_id:greedy");
  await budgets(page);
  await keyboard(page);
  await overriding(page);
  await given(page, check);
  await looking(browser);
  await admin("/overrides/198.51.100.0%2F24", { method: "PUT", body: JSON.stringify({ action: "block", for: "1h", reason: HOSTILE[0] }) });
  fs.appendFileSync(config, "max_connections: 5000\n");
  child.kill("SIGHUP");
  await event(page, "was taken.");
  check("a reload appears", true);
  await screenshots(page);
  moving = false;
  await hostile(page);
  redis.kill("SIGKILL");
  await ask("/ride", "greedy");
  await event(page, "Redis cannot be reached");
  const pill = await page.$eval("#health", (health) => health.textContent);
  check("a Redis that is killed appears", pill === "Failing", pill);
  await accessible(page, "failing");

  check("no policy was violated", (await page.evaluate(() => window.violations)).length === 0);
  // Chromium says so of each stale version, too.
  const unexpected = errors.filter((error) => !error.includes("status of 412"));
  check("no error in the console", unexpected.length === 0, unexpected.join("; "));
  check("no request elsewhere", elsewhere.length === 0, elsewhere.join(" "));
  const plain = await browser.newPage();
  await plain.setJavaScriptEnabled(false);
  await plain.authenticate({ username: "any", password: "ops-ops" });
  await plain.goto(home);
  const text = await plain.$eval("body", (body) => body.textContent);
  const titles = ["Limits", "Refused most", "Latest refusals", "Events", "Routes", "Servers", "Redis: cannot be reached"];
  const missing = titles.filter((title) => !text.includes(title));
  check("without script there are tables", text.includes("user_id:greedy") && text.includes("per-client") && missing.length === 0, missing.join(", "));
  for (const width of [1280, 390]) {
    await plain.setViewport({ width, height: 900 });
    const overflow = await plain.$eval("html", (root) => root.scrollWidth - window.innerWidth);
    check(`they are no wider than the window, ${width}`, overflow <= 0, `${overflow} px`);
    if (shots) await plain.screenshot({ path: path.join(shots, `plain-${width}.png`), fullPage: true });
  }
  check("and overrides, without a form", text.includes("198.51.100.0/24") && !(await plain.$eval("#change", (form) => form.checkVisibility())));
  await browser.close();
}

main()
  .catch((error) => {
    failed += 1;
    console.error(error, errors);
  })
  .finally(() => {
    for (const one of processes) one.kill("SIGKILL");
    fs.rmSync(folder, { recursive: true, force: true });
    console.log(failed ? `${failed} failed` : "all passed");
    process.exit(failed ? 1 : 0);
  });
