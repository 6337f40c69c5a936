package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// access knows which tokens, cookies and secrets are valid. It keeps their digests: what is
// compared is a digest, so that the time of a comparison reveals nothing of a secret.
type access struct {
	secure bool   // the cookie may only travel over TLS
	port   string // in the cookie's name, since browsers send a cookie to every port of a host

	mutex    sync.Mutex
	tokens   map[digest]token
	sessions map[digest]*session
}

type digest = [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// token is that of a link.
type token struct {
	operator *Operator // nil: may watch
	made     time.Time
}

// session is a browser that came with a valid token.
type session struct {
	operator *Operator // nil: may watch
	secret   digest    // beside the cookie, which other ports of this host receive too
	cookie   digest
	began    time.Time
	streams  []*eventStream // open ones, the oldest first
}

// eventStream is a page that receives a fleet's events.
type eventStream struct {
	fleet string
	end   func() // in favour of another page
}

const (
	maxSessions    = 64
	sessionLasts   = 24 * time.Hour
	linkLasts      = time.Hour
	maxTokenLength = 64

	maxStreams = 16 // event streams at a time of those who watch, and as many of operators
	// Of one session. A browser opens six connections to a server without TLS: two are left for commands.
	maxTabs = 4
)

func (a *access) newToken(o *Operator, now time.Time) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.tokens == nil {
		a.tokens, a.sessions = map[digest]token{}, map[digest]*session{}
	}
	text := rand.Text()
	a.tokens[digestOf(text)] = token{o, now}
	return text
}

// take removes a token. expired is one that was valid once.
func (a *access) take(text string, now time.Time) (t token, ok, expired bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	key := digestOf(text)
	t, ok = a.tokens[key]
	delete(a.tokens, key)
	expired = ok && now.Sub(t.made) > linkLasts
	return t, ok && !expired, expired
}

// begin makes a session, and returns its cookie's value and the secret of its commands.
func (a *access) begin(o *Operator, now time.Time) (cookie, secret string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if len(a.sessions) >= maxSessions { // the oldest goes, of those who watch if there is one
		a.drop(slices.MinFunc(slices.Collect(maps.Values(a.sessions)), func(x, y *session) int {
			if (x.operator == nil) != (y.operator == nil) {
				return map[bool]int{true: -1, false: 1}[x.operator == nil]
			}
			return x.began.Compare(y.began)
		}))
	}
	cookie, secret = rand.Text(), rand.Text()
	s := &session{operator: o, secret: digestOf(secret), cookie: digestOf(cookie), began: now}
	a.sessions[s.cookie] = s
	return cookie, secret
}

// end ends a session, and what it receives.
func (a *access) end(s *session) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.drop(s)
}

func (a *access) drop(s *session) {
	delete(a.sessions, s.cookie)
	for _, x := range s.streams {
		x.end()
	}
}

func (a *access) cookieName() string {
	if a.secure {
		return "__Host-ground-" + a.port
	}
	return "ground-" + a.port // browsers want TLS for __Host-
}

// newCookie is one of a value; without a value the browser forgets it.
func (a *access) newCookie(value string) *http.Cookie {
	lasts := int(sessionLasts.Seconds())
	if value == "" {
		lasts = -1
	}
	return &http.Cookie{Name: a.cookieName(), Value: value, Path: "/", MaxAge: lasts, HttpOnly: true, Secure: a.secure,
		SameSite: http.SameSiteStrictMode}
}

// session returns the session of a request, nil without a valid cookie.
func (a *access) session(r *http.Request, now time.Time) *session {
	c, err := r.Cookie(a.cookieName())
	if err != nil || len(c.Value) > maxTokenLength {
		return nil
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	s := a.sessions[digestOf(c.Value)]
	if s == nil || now.Sub(s.began) > sessionLasts {
		return nil
	}
	return s
}

// bearsSecret is whether a request has the secret of its session: in a header, or, since an event
// stream has none, in its query, which no log and no history receives.
func (s *session) bearsSecret(r *http.Request) bool {
	text, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		text = r.URL.Query().Get("secret")
	}
	given := digestOf(text)
	return len(text) <= maxTokenLength && subtle.ConstantTimeCompare(given[:], s.secret[:]) == 1
}

// openStream counts an event stream of a session. A session's newest page takes the place of its
// oldest: a phone that changed its network leaves connections behind that do not end for a
// quarter of an hour, and must not keep itself out. Those who watch have places of their own,
// and an operator always finds one: another operator's oldest page makes room.
func (a *access) openStream(s *session, x *eventStream) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	most, n := s, 0 // the session with the most streams, of all that share the places
	for _, other := range a.sessions {
		if (other.operator == nil) == (s.operator == nil) {
			n += len(other.streams)
			if len(other.streams) > len(most.streams) {
				most = other
			}
		}
	}
	switch {
	case len(s.streams) >= maxTabs || n >= maxStreams && len(s.streams) > 0:
		most = s
	case n < maxStreams:
		most = nil
	case s.operator == nil:
		return false
	}
	if most != nil {
		most.streams[0].end()
		most.streams = most.streams[1:]
	}
	s.streams = append(s.streams, x)
	return true
}

func (a *access) closeStream(s *session, x *eventStream) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	s.streams = slices.DeleteFunc(s.streams, func(y *eventStream) bool { return x == y })
}

func (a *access) watched(s *session, fleet string) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.ContainsFunc(s.streams, func(x *eventStream) bool { return x.fleet == fleet })
}
