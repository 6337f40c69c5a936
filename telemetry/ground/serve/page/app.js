// The page of `ground serve`. In: the event stream. Out: heartbeats, previews, commands.

const $ = id => document.getElementById(id);
const htmlElement = name => document.createElement(name);
const svgElement = name => document.createElementNS('http://www.w3.org/2000/svg', name);
const underWay = state => !['idle', 'done', 'stopped'].includes(state);
const inSlots = ['climbing', 'flying', 'holding']; // or slots will come

// ---- Time, in ms since the server's start. The least difference to this page's clock is without delay
// on the way.
let offset = Infinity, steadyMS = performance.now(), wallMS = Date.now();
const serverNow = () => replay ? replay.atMS : performance.now() - offset;

function checkSleep() { // a clock that stood still while the device slept makes data too young
  const slept = (Date.now() - wallMS) - (performance.now() - steadyMS);
  steadyMS = performance.now(), wallMS = Date.now();
  if (slept > 2000) { offset -= slept; connect(); }
}

let welcome = null, state = null, users = [], answers = [];
let judged = null; // how current the status is, by the server; its age grows here
let samples = [[], [], [], [], [], [], []]; // slot, spent, predicted end, floor, budget, delay, setting
let trails = new Map(), history_ = 0, samplesNew = false;
let lastCommandID, lastCommandSeenMS = -Infinity;
let replay = null; // of a mission that is over, in place of the stream
let streamOpen = false, openedMS = -Infinity, eventMS = -Infinity, denied = '', loginText = '';

function takeEvent(e) {
  if (e.replaced) return makeRoom();
  if (!replay) offset = Math.min(e.welcome ? Infinity : offset, performance.now() - e.t); // another start, another scale
  eventMS = performance.now();
  judged = {...e.link, receivedMS: e.t - e.link.age};
  if (e.welcome) takeWelcome(e.welcome);
  if (e.history !== history_) {
    history_ = e.history;
    samples = samples.map(() => []);
    trails = new Map();
    samplesNew = true;
  }
  for (const [slot, spent, predicted, floor, budget, setting, delay] of e.samples || []) {
    const k = j => j === null ? null : j / 1000;
    [slot, k(spent), k(predicted), k(floor), k(budget), delay, setting].forEach((x, i) => samples[i].push(x));
    samplesNew = true;
  }
  for (const [slot, ...planes] of e.trail || [])
    for (const [number, east, north] of planes) {
      if (!trails.has(number)) trails.set(number, []);
      const trail = trails.get(number);
      trail.push([east, north]);
      if (trail.length > 180) trail.shift();
    }
  if (e.users) users = e.users;
  if (e.state) takeState(e.state);
  for (const a of e.answers || []) takeAnswer(a);
  requestRender();
}

function takeWelcome(w) { // with the first event of each connection comes all that is known
  welcome = w;
  samples = samples.map(() => []);
  trails = new Map();
  answers = []; // they come again
  $('back').hidden = !w.listed;
  $('fleet').textContent = w.fleet;
  document.title = `${w.fleet} - ground`;
  document.body.dataset.role = w.role;
  $('commands').hidden = $('urgent').hidden = w.role !== 'command';
  $('who').textContent = w.name ? `signed by ${w.name}` : 'not signed';
  $('signed').textContent = w.signed ? 'signed by the leader' : 'not signed by the leader';
  if (w.picture) {
    const [west, south, east, north] = w.picture;
    setAttributes($('picture'), {href: 'picture', x: west, y: -north, width: east - west, height: north - south});
  }
}

function takeState(s) {
  state = s;
  if (s.status?.mission !== answersOf) showAnswers();
  const c = s.status && s.status.last_command;
  if (c && c.id !== lastCommandID) {
    if (lastCommandID !== undefined) lastCommandSeenMS = serverNow();
    lastCommandID = c.id;
  } else if (lastCommandID === undefined) lastCommandID = '';
}

function takeAnswer(a) {
  if (answers.some(b => b.id === a.id && b.at === a.at)) return;
  if (given.has(a.id)) say(given.get(a.id), a.ok, a.text);
  answers.unshift(a);
  answers.length = Math.min(answers.length, 20);
  showAnswers();
}

let answersOf; // the mission in force as they were last shown: those of others name theirs
function showAnswers() {
  answersOf = state?.status?.mission;
  if (answers.length) $('answers').replaceChildren(...answers.map(b => {
    const item = htmlElement('li');
    item.className = b.ok ? 'yes' : 'no';
    item.textContent = `${b.mission && answersOf && b.mission !== answersOf ? `mission ${b.mission}: ` : ''}${b.by ? b.by + ': ' : ''}${b.text}`;
    return item;
  }));
}

// ---- The stream: opened again without limit, at once when the page is looked at again.
let source = null, retry = 0, waitMS = 500;

function connectLater() {
  clearTimeout(retry);
  retry = setTimeout(connect, waitMS = Math.min(2 * waitMS, 5000));
}

function disconnect() {
  source?.close();
  source = null;
  streamOpen = false;
}

async function connect() {
  if (replay) return;
  disconnect();
  connectLater(); // unless it succeeds
  const r = await fetch('session', {headers: bearer(), signal: AbortSignal.timeout(4000)}).catch(() => null);
  const text = r ? await r.text().catch(() => '') : '';
  denied = r && !r.ok ? loginText + text : '';
  requestRender();
  let session = null;
  try { session = r && r.ok && JSON.parse(text); } catch { /* cut off on its way */ }
  if (!session || source) return;
  clearTimeout(retry);
  if (session.role === 'replay') return openReplay(session);
  openedMS = performance.now();
  const opened = source = new EventSource(`events?secret=${localStorage.secret}`);
  opened.onopen = () => { streamOpen = true; };
  opened.onmessage = m => { waitMS = 500; takeEvent(JSON.parse(m.data)); };
  opened.onerror = () => {
    if (opened !== source) return;
    disconnect();
    connectLater();
  };
}

// makeRoom is for another page of this browser; this one comes back when it is looked at.
function makeRoom() {
  disconnect();
  clearTimeout(retry);
  if (!document.hidden) connectLater();
}

// checkStream opens a silent stream again, and measures the clock while the link is lost.
function checkStream() {
  const now = performance.now();
  if (source && (now - Math.max(eventMS, openedMS) > 5000 || document.body.dataset.link === 'lost' && now - openedMS > 30e3)) connect();
}

// login exchanges a link's token, which then leaves address bar and history.
async function login() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, '', location.pathname);
    const r = await post('login', {token}).catch(() => null);
    loginText = r && !r.ok ? (await r.text().catch(() => '')).trim() + '; ' : '';
    const {secret} = r && r.ok ? await r.json().catch(() => ({})) : {};
    if (secret) localStorage.secret = secret; // of this port alone, unlike a cookie
  }
  connect();
}

const bearer = () => ({Authorization: `Bearer ${localStorage.secret}`});
function post(path, body) {
  return fetch(path, {method: 'POST', headers: {'Content-Type': 'application/json', ...bearer()}, body: JSON.stringify(body), signal: AbortSignal.timeout(8000)});
}

const kilojoules = j => j == null ? '-' : `${(j / 1000).toFixed(1)} kJ`;
const ageText = ms => ms < 9950 ? `${(ms / 1000).toFixed(1)} s` : ms < 120e3 ? `${Math.round(ms / 1000)} s` : `${Math.round(ms / 60e3)} min`;
const scope = s => s.scope === 'landed' ? 'to touchdown' : 'in slots';
const minutes = s => s >= 60 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${Math.round(s)} s`;

// link is how current the status is, by the data's own age.
function link() {
  const s = state && state.status;
  if (denied) return {lost: true, stale: true, text: denied};
  if (!s) return {lost: false, stale: true, text: 'no status yet', ageMS: NaN};
  const ageMS = serverNow() - judged.receivedMS;
  const lost = ageMS >= judged.limit || judged.lost !== '';
  let text = '';
  if (lost) {
    text = `LINK LOST: ${judged.retained ? 'only what the broker had kept' : `last status ${ageText(ageMS)} ago`}`;
    if (!streamOpen) text += ', the page has no connection to ground serve';
    else if (judged.lost && judged.lost !== 'no status') text += `, ${judged.lost}`;
  }
  return {lost, stale: lost || judged.retained, text, ageMS};
}

const sinceMS = () => Math.max(0, serverNow() - judged.receivedMS); // the status was received
const aircraftAge = a => a.age_s === null ? NaN : a.age_s * 1000 + sinceMS();

// banners: of the link, the leader's dangers as it orders them, this page's.
function banners(l) {
  const list = [], add = (kind, id, text) => list.push({kind, id, text});
  if (l.text) add(l.lost ? 'alarm' : 'warn', 'link', l.text);
  const s = state && state.status;
  if (!s) return list;
  if (!l.lost && judged.retained) add('warn', 'retained', 'STALE: kept by the broker, its age is unknown');
  if (replay && replay.atMS >= replay.endMS) add('told', 'end', replay.end); // whoever was in the air then is not now
  else for (const d of s.dangers || [])
    add(d.gravity >= 7 ? 'alarm' : 'warn', `${d.aircraft} ${d.gravity} ${d.since_slot} ${d.do}`, `${d.aircraft ? `aircraft ${d.aircraft}: ` : ''}${d.text}${d.do && `: ${d.do}`}`);
  if (deaf(s)) add('warn', 'deaf', 'the leader receives no heartbeat of this page: is the name of ground serve that of its certificate?');
  if (beatFailed && !leaving) add('warn', 'beat', 'the heartbeat of this page does not get through');
  const c = s.last_command;
  if (c && !given.has(c.id) && !answers.some(a => a.id === c.id) && Math.abs(serverNow() - lastCommandSeenMS) < 15e3) add('told', 'command', `${c.key || 'an unsigned station'} commanded: ${c.what}, from slot ${c.slot}`);
  const a = answers[0]; // of another page: this one's stand at the buttons that were pressed
  if (a && !given.has(a.id) && Math.abs(serverNow() - a.at) < 15e3) add(a.ok ? 'told' : 'warn', `answer ${a.id}`, `${a.by ? a.by + ': ' : ''}${a.text}`);
  return list;
}

// fitBanners hides those for which there is no room. The gravest is always whole.
let allBanners = false; $('more').onclick = () => { allBanners = !allBanners; requestRender(); };
function fitBanners(list) {
  const box = $('banners'), more = $('more'), over = () => box.scrollHeight > box.clientHeight + 1;
  renderList(box, list, () => htmlElement('p'), (p, b) => { p.className = b.kind; p.hidden = false; setText(p, b.text); });
  allBanners &&= list.length > 1;
  box.classList.toggle('all', allBanners);
  box.classList.remove('tall');
  let shown = list.length;
  more.hidden = !allBanners && !over();
  while (!allBanners && shown > 1 && over()) box.children[--shown].hidden = true;
  box.classList.toggle('tall', over());
  setText(more, allBanners ? 'fewer' : `+${list.length - shown} more`);
  more.hidden ||= !allBanners && shown === list.length;
}

// ---- Sound and vibration, for what is new, and not more often than every 5 s.
let audio = null, muted = false, soundedMS = -Infinity, sounded = new Set();
const soundText = () => muted ? 'Sound off' : audio && audio.state === 'running' ? 'Sound on' : 'Touch for sound';
function sound(list) {
  const loud = list.filter(b => b.kind !== 'told').map(b => b.id);
  const fresh = loud.some(id => !sounded.has(id));
  if (fresh && !muted && performance.now() - soundedMS < 5000) return; // later
  sounded = new Set(loud);
  if (!fresh || muted) return;
  soundedMS = performance.now();
  navigator.vibrate?.(list.some(b => b.kind === 'alarm') ? [300, 100, 300] : [150]);
  if (!audio) return;
  const tone = audio.createOscillator(), volume = audio.createGain();
  volume.gain.value = .2;
  tone.frequency.value = list.some(b => b.kind === 'alarm') ? 880 : 520;
  tone.connect(volume).connect(audio.destination);
  tone.start();
  tone.stop(audio.currentTime + .4);
}
for (const kind of ['click', 'keydown'])
  addEventListener(kind, () => { (audio ??= new AudioContext()).resume().then(requestRender); });
$('mute').onclick = () => {
  muted = $('mute').textContent === 'Sound on';
  $('mute').setAttribute('aria-pressed', muted);
  requestRender();
};

// The screen stays on during a mission, and while anything is in the air.
let wake = null, waking = false; // one request at a time: a second lock would never go
async function keepAwake() {
  if (replay || waking || !('wakeLock' in navigator) || document.hidden) return;
  const s = state && state.status;
  waking = true;
  if (!s || !underWay(s.state) && !s.aircraft.some(a => a.landed === false)) { wake?.release(); wake = null; }
  else if (!wake || wake.released) wake = await navigator.wakeLock.request('screen').catch(() => null);
  waking = false;
}

// ---- Drawing. render runs at most once a frame, after an event and four times a second.
let asked = false;
function requestRender() {
  if (asked || document.hidden) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; render(); });
}

function setText(element, text) { if (element.textContent !== text) element.textContent = text; }
function setAttributes(element, list) { for (const name in list) element.setAttribute(name, list[name]); }

// Nothing moves under a finger: the button pointed at, or else the first in view, stays where it
// is; where the page cannot scroll up, by room above.
let pointed = null, room = 0;
for (const kind of ['pointerdown', 'pointermove', 'focusin']) document.addEventListener(kind, e => { pointed = e.target.closest?.('.hold'); });

function render() {
  const seen = b => b && b.getClientRects().length && b.getBoundingClientRect().bottom > 0 && b.getBoundingClientRect().top < innerHeight;
  const anchor = seen(pointed) ? pointed : [...document.querySelectorAll('#commands .hold')].find(seen), top = anchor?.getBoundingClientRect().top;
  draw();
  const moved = anchor ? anchor.getBoundingClientRect().top - top : 0;
  if (!moved) return;
  const roomBefore = room;
  room = Math.max(0, room - moved - (moved < 0 ? Math.min(scrollY, -moved) : 0));
  $('room').style.height = `${room}px`;
  scrollBy({top: moved + room - roomBefore, behavior: 'instant'});
}

function draw() {
  const l = link(), s = state && state.status;
  document.body.dataset.age = l.ageMS;
  document.body.dataset.link = l.lost ? 'lost' : l.stale ? 'stale' : 'live';
  for (const element of document.querySelectorAll('.data')) element.classList.toggle('stale', l.stale);
  const list = banners(l);
  setText($('mute'), soundText());
  fitBanners(list);
  if (s && !replay) sound(list);
  setText($('age'), isNaN(l.ageMS ?? NaN) ? 'no data yet' : judged.retained ? 'age unknown' : `${ageText(Math.max(0, l.ageMS))} old`);
  if (!s) return;
  setText($('state'), s.state);
  setText($('clock'), `slot ${s.slot < 0 ? '-' : s.slot} of ${s.slots}` + (inSlots.includes(s.state) ? `, ${minutes(s.slots - 1 - s.slot)} of the mission left` : '') + (s.predicted_end_j === null ? '' : `, predicted end ${kilojoules(s.predicted_end_j)} ${scope(s)}`));
  setText($('now'), list.length || replay ? '' : ['state', 'clock', 'age'].map(x => $(x).textContent).join(', '));
  renderValues(s);
  renderAircraft(s);
  renderMap(s);
  renderCharts();
  renderCommands(s);
}

function renderList(parent, list, make, fill) {
  while (parent.children.length > list.length) parent.lastChild.remove();
  list.forEach((x, i) => fill(parent.children[i] || parent.appendChild(make(x)), x));
}

function renderValues(s) {
  const slots = samples[0], n = slots.length - 1, c = s.last_command;
  const budget = s.budget_j !== null, where = scope(s);
  setText($('scope'), ' ' + where);
  const share = s.budget_j ? ` (${Math.round(100 * s.spent_j / s.budget_j)} %)` : '';
  const over = s.predicted_end_j - s.budget_j, gap = budget && s.predicted_end_j !== null ? `${over < 0 ? '' : '+'}${kilojoules(over)} to the budget` : '';
  renderList($('values'), [
    ['request', budget ? `${kilojoules(s.budget_j)} ${s.mode}` : 'preference'],
    [`spent ${where}`, kilojoules(s.spent_j) + share],
    [`remaining ${where}`, kilojoules(s.remaining_j)],
    [`predicted end ${where}`, kilojoules(s.predicted_end_j), gap],
    [`floor ${where}`, kilojoules(s.floor_j)],
    ['delay, mean of a task', n >= 0 && samples[5][n] !== null ? `${samples[5][n].toFixed(3)} s` : '-', n >= 2 ? `of slot ${slots[n] - 2}` : ''],
    ...s.covered_until_slot >= -1 ? [s.covered_until_slot > s.slot || s.covered_until_slot === s.slots - 1 ? ['covered until', `slot ${s.covered_until_slot}`] : ['in the air', 'NOT COVERED: too few']] : [],
    ['users reported', '' + s.users_heard],
    ['missed slots', '' + s.missed_slots],
    ['last command', c ? c.what : '-', c ? `${c.key || 'unsigned'}, from slot ${c.slot}${inSlots.includes(s.state) && s.slot > c.slot ? `, ${s.slot - c.slot} slots ago` : ''}` : ''],
  ], () => {
    const box = htmlElement('div');
    box.append(htmlElement('dt'), htmlElement('dd'));
    box.lastChild.append('', htmlElement('small'));
    return box;
  }, (box, [name, value, small = '']) => {
    setText(box.firstChild, name);
    if (box.lastChild.firstChild.data !== value) box.lastChild.firstChild.data = value;
    setText(box.lastChild.lastChild, small);
  });
}

// A pack: reserve, way home, what is left, and at touchdown.
const fullJ = {};
function renderAircraft(s) {
  renderList($('aircraft'), s.aircraft, () => {
    const item = htmlElement('li'), label = htmlElement('label'), tick = htmlElement('input');
    tick.type = 'checkbox';
    tick.onchange = requestRender;
    label.append(tick, htmlElement('span'));
    item.append(label, ...['p', 'p', 'p', 'div'].map(htmlElement));
    return item;
  }, (item, a) => {
    const [label, line, why, pack, bar] = item.children, ageMS = aircraftAge(a);
    label.firstChild.value = a.number;
    label.firstChild.hidden = welcome.role !== 'command';
    setText(label.lastChild, `Aircraft ${a.number}, system ${a.system_id}: ${a.mode || 'no mode yet'}${a.landed ? ', landed' : a.landed === false ? ', in the air' : ''}`);
    const p = a.position_m;
    setText(line, [p ? `${Math.round(p[0])} m east, ${Math.round(p[1])} m north, ${Math.round(p[2])} m up` : 'no position', a.speed_mps === null ? '' : `${a.speed_mps.toFixed(1)} m/s`,
      a.battery === null ? '' : `battery ${Math.round(100 * a.battery)} %`, `spent ${kilojoules(a.spent_j)} ${scope(s)}`, isNaN(ageMS) ? 'no message yet' : `${ageText(ageMS)} old`].filter(Boolean).join(', '));
    item.classList.toggle('stale', !(ageMS < welcome.stale_ms));
    why.className = a.reason ? 'why' : '';
    setText(why, a.reason);
    const {usable_j: usable, reserve_j: kept, home_j: home, left_at_touchdown_j: left} = a, full = fullJ[a.number] = Math.max(usable || 0, fullJ[a.number] || 1);
    setText(pack, usable >= 0 ? `${a.duty ? a.duty + ', ' : ''}pack ${kilojoules(usable)}, reserve ${kilojoules(kept)}, way home ${kilojoules(home)}, touchdown with ${kilojoules(left)}${a.flies_until_slot >= 0 ? `, flies until slot ${a.flies_until_slot}` : ''}` : '');
    bar.className = usable >= 0 ? 'pack' : '';
    const at = [kept, kept + home, usable, left].map(j => `${Math.min(100, 100 * j / full).toFixed(1)}%`);
    bar.style.background = usable >= 0 ? `linear-gradient(#000,#000) ${at[3]}/3px 100% no-repeat, linear-gradient(90deg,#7a0000 ${at[0]},#fd3 0 ${at[1]},#00501e 0 ${at[2]},#fff 0)` : '';
  });
}
const ticked = () => [...document.querySelectorAll('#aircraft input:checked')].map(x => Number(x.value));

// ---- The map: metres east, and north upwards.
let mapPixels = [1, 1], view = null;
new ResizeObserver(([box]) => { mapPixels = [box.contentRect.width || 1, box.contentRect.height || 1]; view = null; requestRender(); }).observe($('map'));

function fitMap(s) { // wider when something is outside, by whole steps, so that nothing jitters
  const [w, h] = welcome.area_m, far = 2 * Math.max(w, h), box = [0, 0, w, h];
  const add = (e, n) => {
    if (e < -far || n < -far || e > w + far || n > h + far) return;
    box[0] = Math.min(box[0], e), box[1] = Math.min(box[1], n), box[2] = Math.max(box[2], e), box[3] = Math.max(box[3], n);
  };
  for (const a of s.aircraft) if (a.position_m) add(a.position_m[0], a.position_m[1]);
  for (const [, e, n] of users) add(e, n);
  const step = Math.max(w, h) / 10, margin = step / 3;
  const [west, south] = box.slice(0, 2).map(x => step * Math.floor(x / step) - margin);
  const [east, north] = box.slice(2).map(x => step * Math.ceil(x / step) + margin);
  const key = [west, south, east, north].join();
  if (view && view.key === key) return;
  const u = Math.max((east - west) / mapPixels[0], (north - south) / mapPixels[1]); // metres in a pixel
  view = {key, u};
  $('map').setAttribute('viewBox', `${west} ${-north} ${east - west} ${north - south}`);
  setAttributes($('fence'), {x: 0, y: -h, width: w, height: h, 'stroke-width': 3 * u});
  const grid = [100, 200, 500, 1000, 2000, 5000, 1e4, 1e5].find(x => x >= Math.max(w, h) / 8), lines = svgElement('path');
  let d = '';
  for (let x = 0; x <= w; x += grid) d += `M${x} 0V${-h}`;
  for (let y = 0; y <= h; y += grid) d += `M0 ${-y}H${w}`;
  setAttributes(lines, {d, 'stroke-width': u});
  $('grid').replaceChildren(lines);
  setAttributes($('scale'), {transform: `translate(${4 * u} ${-4 * u}) scale(${u})`, 'stroke-width': 4});
  $('scale').textContent = `grid ${grid} m`;
}

function renderMap(s) {
  fitMap(s);
  const u = view.u, at = new Map(s.aircraft.filter(a => a.position_m).map(a => [a.number, a.position_m]));
  const d = {links: '', served: '', local: '', waiting: '', idle: ''};
  for (const [, e, n, aircraft] of users) {
    const kind = aircraft === -1 || !inSlots.includes(s.state) ? 'idle' : aircraft > 0 ? 'served' : aircraft === 0 ? 'local' : 'waiting';
    d[kind] += `M${e} ${-n}h0`; // a dot: a line of no length with round ends
    const p = aircraft > 0 && at.get(aircraft);
    if (p) d.links += `M${p[0].toFixed(0)} ${(-p[1]).toFixed(0)}L${e} ${-n}`;
  }
  for (const kind in d) setAttributes($(kind), {d: d[kind], 'stroke-width': (kind === 'links' ? 1 : kind === 'served' ? 8 : 6) * u});
  const down = new Set(s.aircraft.filter(a => a.landed).map(a => a.number)); // their ways are over
  renderList($('trails'), [...trails].filter(([number]) => !down.has(number)), () => svgElement('path'), (path, [number, points]) =>
    setAttributes(path, {d: 'M' + points.map(([e, n]) => `${e} ${-n}`).join('L'), 'stroke-width': 2 * u, stroke: '#000', 'stroke-dasharray': `${2 * u} ${(1 + number % 4) * u}`}));
  renderList($('planes'), s.aircraft.filter(a => a.position_m), () => {
    const plane = svgElement('g');
    plane.append(svgElement('path'), svgElement('text'));
    setAttributes(plane.lastChild, {x: 12, y: -8, 'stroke-width': 4});
    return plane;
  }, (plane, a) => {
    const [e, n, up] = a.position_m, points = trails.get(a.number) || [], from = points[points.length - 2], to = points[points.length - 1];
    const heading = from && to && (from[0] !== to[0] || from[1] !== to[1]) ? Math.atan2(to[0] - from[0], to[1] - from[1]) * 180 / Math.PI : 0;
    const old = !(aircraftAge(a) < welcome.stale_ms);
    plane.setAttribute('transform', `translate(${e} ${-n}) scale(${u})`);
    setAttributes(plane.firstChild, {d: 'M0 -13 9 11 0 6 -9 11Z', transform: `rotate(${heading.toFixed(0)})`, fill: old ? '#fff' : '#000', stroke: '#000', 'stroke-width': 2, 'stroke-dasharray': old ? '3 2' : 'none'});
    setText(plane.lastChild, `${a.number}${old ? '?' : ':'} ${Math.round(up)} m`);
  });
}

let energyChart = null, delayChart = null;
function renderCharts() {
  if (!samplesNew || !samples[0].length) return;
  samplesNew = false;
  const width = Math.max(200, $('energy-chart').clientWidth);
  const line = (stroke, dash, w) => ({stroke, dash, width: w || 2, points: {show: false}});
  const axis = {stroke: '#000', grid: {stroke: '#c8c8c8', width: 1}, ticks: {stroke: '#000', width: 1}, font: '13px system-ui'};
  const make = (box, series) => new uPlot({width, height: 170, scales: {x: {time: false}}, legend: {show: false}, cursor: {show: false}, axes: [axis, {...axis, size: 48}], series: [{}, ...series]}, null, box);
  energyChart ??= make($('energy-chart'), [line('#2fa35c', [], 7), line('#000', [], 3), line('#7a0000', [2, 3]), line('#00408a', [8, 4])]);
  delayChart ??= make($('delay-chart'), [line('#000')]);
  const [slot, spent, predicted, floor, budget, delay] = samples;
  energyChart.setData([slot, budget, spent, floor, predicted]);
  const settled = slot.findIndex(n => n >= 2); // a delay is of two slots before
  delayChart.setData(settled < 0 ? [[], []] : [slot.slice(settled).map(n => n - 2), delay.slice(settled)]);
  $('charts').dataset.from = [energyChart, delayChart].map(chart => chart.scales.x.min);
  if (energyChart.width !== width) for (const chart of [energyChart, delayChart]) chart.setSize({width, height: 170});
}
addEventListener('resize', () => { samplesNew = true; requestRender(); });

// ---- Acts that are meant. A press lasts by the events' own times, so that a busy page takes no tap for a press, nor a
// press for a tap: what came meanwhile is handled before the second frame.
function makeHold(button, act, lastsMS = 1000) {
  let frame = 0, frames = 0, fromMS = 0, told = 0;
  const label = button.lastChild;
  const show = ms => button.style.setProperty('--done', `${Math.min(100, 100 * ms / lastsMS)}%`);
  const cancel = () => { cancelAnimationFrame(frame); frame = 0; show(0); };
  const done = () => { cancel(); act(); };
  const step = nowMS => {
    if (++frames > 1 && nowMS - fromMS >= lastsMS) return done();
    show(nowMS - fromMS);
    frame = requestAnimationFrame(step);
  };
  const start = e => { if (!frame) { fromMS = e.timeStamp; frames = 0; frame = requestAnimationFrame(step); } };
  const end = e => {
    if (!frame) return;
    if (e.timeStamp - fromMS >= lastsMS) return done();
    cancel();
    if (told) return;
    const text = label.textContent;
    label.textContent = `keep it pressed for ${lastsMS / 1000} s`;
    told = setTimeout(() => { label.textContent = text; told = 0; }, 2500);
  };
  button.addEventListener('pointerdown', e => { if (e.button === 0) { button.setPointerCapture(e.pointerId); start(e); } });
  button.addEventListener('pointermove', e => { if (frame && !button.contains(document.elementFromPoint(e.clientX, e.clientY))) cancel(); });
  button.addEventListener('pointerup', end);
  for (const kind of ['pointercancel', 'lostpointercapture', 'blur']) button.addEventListener(kind, cancel);
  button.addEventListener('keydown', e => {
    if (e.key !== 'Enter' && e.key !== ' ') return;
    e.preventDefault();
    if (!e.repeat) start(e);
  });
  button.addEventListener('keyup', end);
  button.addEventListener('contextmenu', e => e.preventDefault());
  document.addEventListener('visibilitychange', cancel);
}

const actions = [ // action, seconds of its press, label
  ['start', 2, 'START'], ['hold', 1, 'hold'], ['resume', 1, 'resume'], ['return', 1, 'return and land'], ['keep', 1, 'keep all up'],
  ['stop', 2, 'STOP'], ['launch', 2, 'LAUNCH ticked'], ['clear', 1, 'clear ticked'],
];
const urgent = ['hold', 'return', 'stop']; // always in sight
const forms = {budget: 'budget', preference: 'budget', next: 'new', watching: ''}; // what each is refused as
for (const [action, seconds, label] of actions) {
  const box = htmlElement('div'), before = htmlElement('p'), button = htmlElement('button'), text = htmlElement('span');
  box.className = 'act';
  box.id = `act-${action}`;
  before.className = 'before data';
  before.id = `before-${action}`;
  text.textContent = `${seconds} s: ${label}`;
  button.type = 'button';
  button.className = 'hold';
  button.append(htmlElement('i'), text);
  button.setAttribute('aria-describedby', before.id);
  makeHold(button, () => {
    if (action === 'keep') return send({kind: 'budget', action, replaces_j: state.status.budget_j}, action);
    const aircraft = namesAircraft.includes(action) ? ticked() : [];
    if (!action.startsWith('re') && namesAircraft.includes(action) && !aircraft.length) return say(action, false, 'Tick the aircraft first.');
    for (const n of document.querySelectorAll('#aircraft input')) n.checked &&= !aircraft.length; // a choice ends with its command
    send({kind: 'mission', action, ...aircraft.length ? {aircraft} : {}}, action);
  }, 1000 * seconds);
  box.append(before, button);
  $(urgent.includes(action) ? 'urgent' : 'actions').append(box);
}

const namesAircraft = ['launch', 'clear', 'resume', 'return'];
let ticks = '', named = {}; // what those would do to the ticked aircraft, in words

async function explainTicks(list) {
  const mine = ticks = list.join();
  named = {};
  for (const action of list.length ? namesAircraft : []) {
    const text = (await explain({kind: 'mission', action, aircraft: list})).text;
    if (mine === ticks) named[action] = text;
  }
  requestRender();
}

async function explain(q) {
  const r = await post('preview', {id: 'preview', at: 0, ...q}).catch(() => null);
  return r && r.ok ? r.json() : {ok: false, text: 'ground serve does not answer'};
}

function renderCommands(s) {
  if (welcome.role !== 'command') return;
  const list = ticked();
  if (list.join() !== ticks) explainTicks(list);
  for (const [action] of actions) {
    const box = $(`act-${action}`), why = s.refuses?.[action === 'keep' ? 'budget' : action], was = lately(action);
    box.classList.toggle('unfit', !!why || action === 'keep' && s.covered_until_slot == null);
    box.hidden = why?.startsWith('not while') && !was && !urgent.includes(action); // for another time
    box.classList.toggle('no', !!was && !was.ok);
    setText(box.firstChild, was ? was.text : list.length && namesAircraft.includes(action) ? named[action] || '...' : why ? `Refused: ${why}.` : state.before[action] || 'Tick the aircraft first.');
  }
  for (const id in forms) {
    const why = s.refuses?.[forms[id]], was = lately(id);
    $(id).classList.toggle('unfit', !!why);
    $(id).classList.toggle('no', !!was && !was.ok);
    setText($(id).querySelector('.when'), was ? was.text : why ? `Refused: ${why}.` : '');
  }
  if (s.budget_j === null) $('setting').defaultValue = Number(s.setting.toFixed(3)); // what is typed stands
  setText($('beats'), 'crew_age_s' in s ? `The leader received the last heartbeat ${ageText(1000 * s.crew_age_s + sinceMS())} ago.` : 'The leader receives no heartbeats.');
  setText($('beat'), leaving ? 'This page sends no heartbeat. Another station should watch.' :
    'While this page can be seen it sends the crew\'s heartbeat. Without any for 30 s the fleet holds, for 120 s it returns, unless configured otherwise.');
}

const said = {}; // what became of the last press of a button or form
const lately = kind => said[kind] && Math.abs(serverNow() - said[kind].at) < 15e3 ? said[kind] : null;
function say(kind, ok, text) { said[kind] = {ok, text, at: serverNow()}; requestRender(); }

function newID(kind) {
  return kind[0] + '-' + [...crypto.getRandomValues(new Uint8Array(12))].map(x => 'abcdefghijklmnopqrstuvwxyz234567'[x & 31]).join('');
}

const given = new Map(); // ids of this page's commands, and where each was pressed
// send gives a command once; its outcome comes with the events.
async function send(q, kind) {
  const id = newID(q.kind), at = Math.round(serverNow());
  given.set(id, kind);
  try {
    const r = await post('command', {id, at, ...q});
    const text = await r.text();
    if (r.headers.get('Content-Type') === 'application/json') takeAnswer(JSON.parse(text));
    else if (!r.ok) say(kind, false, text);
    requestRender();
  } catch (error) {
    say(kind, false, `No answer (${error.message}); the last command shows whether it was applied.`);
  }
}

// A form's command is sent as last explained: with the total that it replaces.
function makeForm(kind, fields, button, before, read) {
  const form = $(fields[0]).form, first = $(before).textContent;
  let explained = null, problem = '', timer = 0, asking = 0;
  const update = async () => {
    explained = null, problem = '';
    const q = read(), mine = ++asking;
    if (!q) return;
    const a = await explain({kind, ...q});
    if (mine !== asking) return;
    $(before).textContent = a.text;
    if (!a.ok) problem = a.text;
    else explained = {q: JSON.stringify(q), replaces: a.replaces_j};
  };
  for (const id of fields)
    $(id).addEventListener('input', () => { explained = null, problem = ''; delete said[form.id]; clearTimeout(timer); timer = setTimeout(update, 150); });
  makeHold($(button), async () => {
    const q = read();
    if (!q || !explained || explained.q !== JSON.stringify(q)) { say(form.id, false, `Not sent${problem ? ': ' + problem : '; read first what it does'}.`); return update(); }
    const done = send({kind, ...q, replaces_j: explained.replaces}, form.id);
    form.reset(); // a choice ends with its command
    explained = null;
    $(before).textContent = first;
    await done;
  });
  form.addEventListener('submit', e => e.preventDefault());
}
makeForm('budget', ['energy', 'mode', 'below'], 'send-budget', 'budget-before',
  () => $('energy').value.trim() ? {energy: $('energy').value.trim(), mode: $('mode').value, below_floor: $('below').checked} : null);
makeForm('preference', ['setting'], 'send-preference', 'preference-before',
  () => $('setting').value === '' ? null : {setting: Number($('setting').value)});
makeForm('mission', ['mission'], 'send-new', 'new-before',
  () => $('mission').value.trim() ? {action: 'new', mission: $('mission').value.trim()} : null);

makeHold($('logout'), async () => { // of all pages of this browser
  if (welcome?.role === 'command' && !leaving) await post('leave', {}).catch(() => null);
  await post(`${welcome?.listed ? '../' : ''}logout`, {}).catch(() => null);
  delete localStorage.secret;
  location.reload();
});

// deaf: the leader knows nothing of 10 s of heartbeats.
const deaf = s => beatsFromMS > 0 && serverNow() - beatsFromMS > 10e3 && (s.crew_age_s ?? 99) > 10;

// ---- The crew's heartbeat: while this page is seen, and itself sees the fleet.
let leaving = false, beat = null, beatFailed = false, beatsFromMS = 0; // 0: none is sent
makeHold($('leave'), async () => {
  leaving = !leaving;
  beatsFromMS = 0;
  $('leave').lastChild.textContent = leaving ? '1 s: watch again' : '1 s: stop watching';
  requestRender();
  await beat; // one that came after it would undo it
  if (leaving && !await post('leave', {}).then(r => r.ok, () => false)) say('watching', false, 'No answer; without another heartbeat the fleet will hold.');
});
setInterval(() => {
  if (!welcome || welcome.role !== 'command' || document.hidden || leaving || !streamOpen || performance.now() - eventMS >= 3000 || !state?.status || link().lost) { beatsFromMS = 0; return; }
  beatsFromMS ||= serverNow();
  beat = post('alive', {}).then(r => { beatFailed = !r.ok; }, () => { beatFailed = true; });
}, 1000);

// ---- A replay: the events of a past mission, taken when their time comes.
async function openReplay(session) {
  const mission = await fetch('replay', {headers: bearer()}).then(r => r.ok && r.json()).catch(() => null);
  if (replay) return; // another page view asked too
  if (!mission) { retry = setTimeout(connect, 2000); return; }
  replay = {...mission, endMS: mission.events.at(-1).t, atMS: -1, next: 0, timer: 0};
  streamOpen = true;
  takeWelcome(session);
  document.title = `${session.fleet} ${mission.mission} - replay`;
  const scrub = $('scrub');
  scrub.max = replay.endMS;
  scrub.oninput = () => seek(Number(scrub.value));
  $('play').onclick = () => play(!replay.timer);
  $('replay').hidden = false;
  for (const id of ['mute', 'age', 'legend']) $(id).hidden = true;
  addEventListener('keydown', e => {
    const slots = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity}[e.key];
    if (![document.body, scrub].includes(e.target) || e.ctrlKey || e.altKey || e.metaKey || slots === undefined && e.key !== ' ') return;
    e.preventDefault();
    if (e.key === ' ') play(!replay.timer);
    else seek(replay.events[Math.max(0, Math.min(replay.next - 1 + slots, replay.events.length - 1))].t);
  });
  seek(0);
}

function seek(atMS) {
  if (atMS < replay.atMS) { // from the start again
    replay.next = 0;
    history_ = -1, state = null;
    lastCommandID = undefined, lastCommandSeenMS = -Infinity;
    answers = [];
    $('answers').replaceChildren();
  }
  const target = Math.max(0, Math.min(atMS, replay.endMS));
  while (replay.next < replay.events.length && replay.events[replay.next].t <= target) {
    replay.atMS = replay.events[replay.next].t;
    takeEvent(replay.events[replay.next++]);
  }
  replay.atMS = target;
  const text = `${minutes(target / 1000)} of ${minutes(replay.endMS / 1000)}, ${new Date(replay.from + target).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
  setText($('moment'), `Replay of ${replay.mission}: ${text}`);
  $('scrub').value = target;
  $('scrub').setAttribute('aria-valuetext', text);
  requestRender();
}

function play(on) {
  clearInterval(replay.timer);
  replay.timer = 0;
  setText($('play'), on ? 'Pause' : 'Play');
  if (!on) return;
  if (replay.atMS >= replay.endMS) seek(0);
  let last = performance.now();
  replay.timer = setInterval(() => {
    const now = performance.now();
    seek(replay.atMS + (now - last) * Number($('speed').value));
    last = now;
    if (replay.atMS >= replay.endMS) play(false);
  }, 100);
}

document.addEventListener('securitypolicyviolation', () => { document.body.dataset.violations = Number(document.body.dataset.violations || 0) + 1; });
document.addEventListener('visibilitychange', () => { if (!document.hidden) { waitMS = 500; connect(); keepAwake(); } });
setInterval(() => {
  checkSleep();
  checkStream();
  requestRender();
  if (document.hidden && state && state.status && !replay) sound(banners(link())); // behind another page
}, 250);
setInterval(keepAwake, 5000);
addEventListener('hashchange', login);
login();
