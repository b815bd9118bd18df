import { type Client, createClient, isSignalboxError, type WireMe } from '../../src/http/client/index.ts'
import { timedFetch } from '../live/server-clock.ts'
import { createStored, type Stored, useStored } from './stored.ts'

/**
 * The signed-in user. The token stays in this tab (sessionStorage) and is sent to this server only.
 *
 *     starting ──▶ in ──401──▶ out (with the reason) ──token──▶ in
 *        ├── this server requires no token: in
 *        └── the server does not answer: lost ──▶ tries again
 */
export type Session =
  | { readonly state: 'starting' }
  | { readonly state: 'lost'; readonly error: unknown }
  | { readonly state: 'out'; readonly why: 'needed' | 'ended' | 'refused' | 'left' | 'namespace' }
  | { readonly state: 'in'; readonly me: WireMe; readonly client: Client; readonly hasToken: boolean }

export type SignedIn = Extract<Session, { readonly state: 'in' }>

const tokenPlace = 'signalbox.token'
const namespacePlace = 'signalbox.namespace'

export const session: Stored<Session> = createStored<Session>({ state: 'starting' })

export function useSession(): Session {
  return useStored(session)
}

/** The signed-in user; only for views that need one. */
export function useSignedIn(): SignedIn {
  const now = useSession()
  if (now.state !== 'in') throw new Error('No user is signed in.')
  return now
}

/** The client of the signed-in user. */
export function useClient(): Client {
  return useSignedIn().client
}

/** What the token allows: `read` looks, `work` handles single jobs, `admin` does everything. */
export function useMay(scope: 'work' | 'admin'): boolean {
  const { me } = useSignedIn()
  return me.scope === 'admin' || me.scope === scope
}

/** The namespace that code to copy has to name, so that it gets where the reader is; undefined: it gets there by itself. */
export function namespaceToName(
  me: Pick<SignedIn['me'], 'everyNamespace' | 'namespace'>,
): string | undefined {
  return me.everyNamespace && me.namespace !== 'default' ? me.namespace : undefined
}

/** Looks who we are, with what the tab remembers. Never rejects. */
export async function start(): Promise<void> {
  await enter(remembered(tokenPlace), remembered(namespacePlace), 'needed')
}

/** Tries a token that the user typed. */
export async function signIn(token: string): Promise<void> {
  remember(namespacePlace, undefined)
  await enter(token, undefined, 'refused')
}

export function signOut(why: 'left' | 'ended'): void {
  if (why === 'ended' && staying > 0) {
    isRefused = true
    return
  }
  const now = session.get()
  if (now.state === 'in') now.client.close()
  remember(tokenPlace, undefined)
  session.set({ state: 'out', why })
}

let staying = 0
let isRefused = false

/**
 * While the page creates the server's first token, the server may refuse its other requests. Signing out then would lose
 * the response with the only copy of the secret. If requests are still refused afterwards, the page signs out.
 */
export async function stayDuring<Result>(work: () => Promise<Result>): Promise<Result> {
  staying++
  try {
    return await work()
  } finally {
    staying--
    if (staying === 0 && isRefused) {
      isRefused = false
      signOut('ended')
    }
  }
}

/** Goes to another namespace, where the token allows it. */
export async function enterNamespace(namespace: string): Promise<void> {
  await enter(remembered(tokenPlace), namespace, 'ended')
}

async function enter(
  token: string | undefined,
  namespace: string | undefined,
  otherwise: 'needed' | 'refused' | 'ended',
): Promise<void> {
  let client: Client | undefined
  try {
    client = createClient(new URL('.', document.baseURI).href, {
      token,
      namespace,
      retries: 1,
      fetch: timedFetch,
    })
    const me = await client.overview.me()
    const before = session.get()
    if (before.state === 'in') before.client.close()
    remember(tokenPlace, token)
    remember(namespacePlace, namespace)
    isRefused = false
    session.set({ state: 'in', me, client, hasToken: token !== undefined })
  } catch (error) {
    client?.close()
    refuse(error, token, namespace, otherwise)
  }
}

function refuse(
  error: unknown,
  token: string | undefined,
  namespace: string | undefined,
  otherwise: 'needed' | 'refused' | 'ended',
): void {
  if (isSignalboxError(error, 'forbidden') && namespace !== undefined) {
    // The tab remembers this namespace from another token.
    remember(namespacePlace, undefined)
    session.set({ state: 'out', why: 'namespace' })
  } else if (isSignalboxError(error, 'unauthorized') || isSignalboxError(error, 'invalid_argument')) {
    remember(tokenPlace, undefined)
    session.set({
      state: 'out',
      why: token === undefined ? 'needed' : otherwise === 'needed' ? 'ended' : otherwise,
    })
  } else if (session.get().state !== 'in') {
    session.set({ state: 'lost', error })
  }
}

function remembered(place: string): string | undefined {
  try {
    return sessionStorage.getItem(place) ?? undefined
  } catch {
    return undefined
  }
}

function remember(place: string, value: string | undefined): void {
  try {
    if (value === undefined) sessionStorage.removeItem(place)
    else sessionStorage.setItem(place, value)
  } catch {
    // Storage may be blocked; then a reload asks for the token again.
  }
}
