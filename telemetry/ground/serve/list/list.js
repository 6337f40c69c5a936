// The list of fleets of `ground serve -fleets`: a line for each, anew once a second.
const $ = id => document.getElementById(id);
let answeredMS = performance.now();

async function update() {
  const r = await fetch('fleets', {headers: {Authorization: `Bearer ${localStorage.secret}`}, signal: AbortSignal.timeout(4000)}).catch(() => null);
  const text = r ? await r.text().catch(() => '') : '';
  if (r && !r.ok) problem(text);
  else if (text) { // not cut off on its way
    answeredMS = performance.now();
    $('problem').hidden = true;
    render(JSON.parse(text));
  }
  setTimeout(update, 1000);
}

function problem(text) {
  $('problem').textContent = text;
  $('problem').hidden = false;
  for (const item of $('fleets').children) item.className = 'stale';
}
setInterval(() => { if (performance.now() - answeredMS > 3000 && $('problem').hidden) problem('LINK LOST: no connection to ground serve'); }, 250);

function render(lines) {
  const box = $('fleets');
  while (box.children.length < lines.length) {
    const item = box.appendChild(document.createElement('li')), link = item.appendChild(document.createElement('a'));
    link.append(document.createElement('b'), ' ', document.createElement('span'));
    item.append(document.createElement('p'));
  }
  lines.forEach((x, i) => {
    const item = box.children[i], [link, text] = item.children;
    item.className = `${x.stale ? 'stale' : ''} ${x.alarm ? 'alarm' : ''}`;
    link.setAttribute('href', `${x.fleet}/`);
    link.children[0].textContent = x.fleet;
    link.children[1].textContent = x.state;
    text.textContent = x.text;
  });
}

async function login() {
  const token = location.hash.slice(1);
  if (token) {
    history.replaceState(null, '', location.pathname);
    const r = await fetch('login', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({token})}).catch(() => null);
    const {secret} = r && r.ok ? await r.json().catch(() => ({})) : {};
    if (secret) localStorage.secret = secret; // for every fleet's page
  }
}

addEventListener('hashchange', login);
await login();
update();
