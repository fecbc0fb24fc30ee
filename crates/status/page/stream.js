// The documents of the status page: whole ones from /status.json, and one each second, without series, from /events.
"use strict";

const VERSION = 1; // of the document
const SECONDS = 300; // in a series
const MINUTE = 60; // seconds after which the whole document is read again, because the stream has no minutes
const PATIENCE = 10_000; // longest wait for a whole document, in ms
const POLL = 2000; // pause between whole documents without a stream, in ms
const RETRY = 15; // polls after which the stream is tried again

let status = null; // the last document, with its series
let lastSeen = 0; // time of its arrival, in ms
let lastWhole = 0; // the tick of the last whole document
let source = null; // the stream
let polling = null; // the timer that reads documents without a stream
let polls = 0;
let loading = null; // the whole document in transfer
let later = []; // documents of the stream that came during the transfer, at most MINUTE
let trouble = null; // the reason why no document is shown: { word, text, act }

const noSeries = () => ({ seconds: { admitted: [], refused: [], would_refuse: [] }, minutes: { admitted: [], refused: [], would_refuse: [] } });

/** Whether a document is from the second after another one, and from the same process. */
const follows = (next, before) => next.tick === before.tick + 1 && next.gateway.uptime_seconds >= before.gateway.uptime_seconds;

/** Appends the values of one second to a series. */
function extend(series, second) {
  if (!series) return;
  for (const [name, values] of Object.entries(series.seconds)) {
    values.push(second[name] || 0);
    if (values.length > SECONDS) values.shift();
  }
}

/** Gives a document of the stream the series of the document before it. A new limit begins a new series. */
function join(next, before) {
  next.requests.series = before.requests.series;
  extend(next.requests.series, next.requests.second);
  const known = new Map(before.limits.map((limit) => [limit.name, limit.series]));
  for (const limit of next.limits) {
    limit.series = known.get(limit.name) || noSeries();
    extend(limit.series, limit.second);
  }
  return next;
}

/** Shows a document. If that fails, shows the reason. */
function accept(next) {
  status = next;
  lastSeen = Date.now();
  trouble = null;
  try {
    render();
  } catch (error) {
    console.error(error);
    complain({ word: "Cannot be shown", text: `This page cannot show what the gateway sends: ${error.message}.`, act: "Load the page again" });
  }
}

/** Shows the reason why no document is shown. */
function complain(of) {
  trouble = of;
  renderTrouble();
}

function stop() {
  if (source) source.close();
  source = null;
  clearInterval(polling);
  polling = null;
}

/** Returns the time of this page's last reload of itself. Without session storage, it never reloads. */
function lastReload() {
  try {
    return Number(sessionStorage.getItem("tidegate-reload")) || 0;
  } catch {
    return Infinity;
  }
}

/** Whether this page can read a document. Otherwise it loads the gateway's page of the other version, unless a form is being filled. */
function readable(next) {
  if (next.version === VERSION) return true;
  stop();
  if (Date.now() - lastReload() > 60_000 && !isFilled()) {
    sessionStorage.setItem("tidegate-reload", String(Date.now()));
    location.reload();
  }
  complain({ word: "Other version", text: "The gateway has another version than this page.", act: "Load the page again" });
  return false;
}

function refused(code) {
  stop();
  const again = "The gateway needs the token again: it was restarted, its tokens have changed, or the session has ended.";
  const why = code === 401 ? again : "The gateway refuses this page.";
  complain({ word: code === 401 ? "Token needed" : "Refused", text: why, act: code === 401 ? "Give the token" : "Load the page again" });
}

/** Takes a document of the stream. */
function take(next) {
  if (!readable(next)) return;
  if (status && next.tick === status.tick && next.gateway.uptime_seconds >= status.gateway.uptime_seconds) return;
  const isNext = status !== null && follows(next, status);
  if (!isNext || Math.floor(next.tick / MINUTE) !== Math.floor(lastWhole / MINUTE)) load();
  if (loading && later.length < MINUTE) later.push(next);
  if (isNext) accept(join(next, status));
}

async function read() {
  const answer = await fetch("/status.json", { credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 401 || answer.status === 403) return refused(answer.status);
  if (!answer.ok) return;
  const next = await answer.json();
  if (!readable(next)) return;
  lastWhole = next.tick;
  // Documents that the stream sent during the transfer follow it.
  accept(later.reduce((before, one) => (follows(one, before) ? join(one, before) : before), next));
}

/** Reads the whole document, once at a time. After a failure, the next second or poll tries again. */
function load() {
  if (loading) return loading;
  later = [];
  loading = read().catch(() => {}).finally(() => { loading = null; });
  return loading;
}

function follow() {
  if (source) source.close();
  const opened = new EventSource("/events");
  source = opened;
  opened.onopen = () => {
    clearInterval(polling);
    polling = null;
  };
  opened.onmessage = (event) => take(JSON.parse(event.data));
  opened.onerror = () => {
    // Closed for good: too many pages are open, or the token is needed. Otherwise the browser connects again.
    if (opened === source && opened.readyState === EventSource.CLOSED) poll();
  };
}

/** Reads whole documents until there is a stream. */
function poll() {
  if (polling) return;
  load();
  polling = setInterval(() => {
    polls += 1;
    if (polls % RETRY === 0) follow();
    else load();
  }, POLL);
}

document.addEventListener("visibilitychange", () => {
  stop();
  if (document.hidden) return;
  load();
  follow();
});
setInterval(() => { if (status) renderHead(); }, 2500);
load();
follow();
