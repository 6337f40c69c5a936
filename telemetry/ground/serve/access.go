package serve

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"
)

// access knows which tokens and cookies are valid. It keeps their digests: what is compared
// is a digest, so that the time of a comparison reveals nothing of a secret.
type access struct {
	secure bool   // the cookie may only travel over TLS
	port   string // in the cookie's name, since browsers send a cookie to every port of a host

	mutex    sync.Mutex
	tokens   map[digest]*Operator // nil: may watch
	sessions map[digest]*session
}

type digest = [sha256.Size]byte

// session is a browser that came with a valid token.
type session struct {
	operator *Operator // nil: may watch
	began    time.Time
	streams  []*eventStream // open ones, the oldest first
}

// eventStream is a page that receives a fleet's events.
type eventStream struct {
	fleet string
	end   func()
}

const (
	maxSessions    = 64
	sessionLasts   = 24 * time.Hour
	maxTokenLength = 64
)

func (a *access) newToken(o *Operator) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.tokens == nil {
		a.tokens, a.sessions = map[digest]*Operator{}, map[digest]*session{}
	}
	token := rand.Text()
	a.tokens[sha256.Sum256([]byte(token))] = o
	return token
}

// exchange takes a token, which is then no longer valid, and returns a cookie's value.
func (a *access) exchange(token string, now time.Time) (value string, o *Operator, ok bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	key := sha256.Sum256([]byte(token))
	if o, ok = a.tokens[key]; !ok {
		return "", nil, false
	}
	delete(a.tokens, key)
	var oldest digest
	for k, s := range a.sessions {
		if first, known := a.sessions[oldest]; !known || s.began.Before(first.began) {
			oldest = k
		}
	}
	if len(a.sessions) >= maxSessions {
		delete(a.sessions, oldest)
	}
	value = rand.Text()
	a.sessions[sha256.Sum256([]byte(value))] = &session{operator: o, began: now}
	return value, o, true
}

func (a *access) cookieName() string {
	if a.secure {
		return "__Host-ground-" + a.port
	}
	return "ground-" + a.port // browsers want TLS for __Host-
}

func (a *access) cookie(value string) *http.Cookie {
	return &http.Cookie{Name: a.cookieName(), Value: value, Path: "/", MaxAge: int(sessionLasts.Seconds()), HttpOnly: true, Secure: a.secure, SameSite: http.SameSiteStrictMode}
}

// session returns the session of a request, nil without a valid cookie.
func (a *access) session(r *http.Request, now time.Time) *session {
	c, err := r.Cookie(a.cookieName())
	if err != nil || len(c.Value) > maxTokenLength {
		return nil
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	s := a.sessions[sha256.Sum256([]byte(c.Value))]
	if s == nil || now.Sub(s.began) > sessionLasts {
		return nil
	}
	return s
}

// openStream counts an event stream of a session, unless others have all places. A
// session's newest page takes the place of its oldest: a phone that changed its network leaves
// connections behind that do not end for a quarter of an hour, and must not keep itself out.
func (a *access) openStream(s *session, x *eventStream) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	n := 0
	for _, other := range a.sessions {
		n += len(other.streams)
	}
	if own := len(s.streams); own > 0 && (n >= maxStreams || own >= maxStreams/4) {
		s.streams[0].end()
		s.streams = s.streams[1:]
		n--
	}
	if n >= maxStreams {
		return false
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
