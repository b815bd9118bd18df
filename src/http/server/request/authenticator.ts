import {
  createTokens,
  digestOf,
  everyNamespace,
  type FailedAttempts,
  Fresh,
  inTime,
  type PresentedSecret,
  presentSecret,
  sameDigest,
  type Token,
  type TokenChange,
  type TokenStore,
  type Tokens,
  TokenWatch,
  VerifiedTokens,
} from '../../../access/index.ts'
import { type Clock, systemClock } from '../../../core/clock.ts'
import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import { text } from '../../../core/options.ts'
import type { Authenticator, Incoming, Principal } from '../call.ts'
import type { ClientAddresses, ForwardedRequest } from './client-addresses.ts'

export interface AuthenticatorOptions {
  /** Secrets of 32 characters or more, with every permission in every namespace. */
  readonly bootstrap: readonly string[]
  /** Whether only this machine can reach the port. */
  readonly loopback: boolean
  /**
   * The app around the server authenticates callers: they need no token, even if the store has tokens. @default false
   */
  readonly trust?: boolean
  /** Counts wrong tokens. @default does not count them */
  readonly failures?: Pick<FailedAttempts, 'count'>
  /** Finds the address of a request's client. @default the peer's address */
  readonly clients?: Pick<ClientAddresses, 'of'>
  /** @default the process's */
  readonly clock?: Clock
}

/** How long the store may take to answer. */
const deadlineMs = 5_000
/** How long a wait continues while the store does not answer. */
const unsureMs = 30_000
/**
 * The greatest age of a cached answer about a token, and how often the server checks tokens in use. A wait may begin
 * with the oldest answer and end at the next check, so the sum stays below a second.
 */
const maxAgeMs = 500
const everyMs = 400
/** The greatest age of the cached answer whether the store has a valid token. */
const anyLiveMaxAgeMs = 2_000
/** How long the server refuses a wrong secret without another look-up. */
const wrongMs = 5_000
const maxRemembered = 10_000
/** The most tokens of one look-up. */
const maxIds = 500
const leastSecretChars = 32

/** The caller of a request, before its namespace is known. */
type Identity = Pick<Token, 'id' | 'scope' | 'namespace'> & Partial<Pick<Token, 'name' | 'nodes'>>

const local: Identity = { id: 'local', scope: 'admin', namespace: everyNamespace }
const bootstrap: Identity = { id: 'bootstrap', scope: 'admin', namespace: everyNamespace }

/**
 * Finds the caller. A caller needs a token when a bootstrap secret is configured, when other machines can reach the
 * port, or when the store has a valid token. Otherwise every client of the port is `local` and may do everything. A
 * token that a caller sends must be valid, even if the server needs none. When the store does not answer, the server
 * refuses every caller.
 *
 * A token revoked on this server ends at once. A token revoked elsewhere ends within a second while the store answers:
 * the server caches answers for half a second, and checks the tokens of open waits every 400 ms.
 */
export class TokenAuthenticator implements Authenticator {
  /** Creates and revokes tokens. This server applies these changes at once. */
  readonly tokens: Tokens
  readonly #store: TokenStore
  readonly #options: AuthenticatorOptions
  readonly #bootstrapDigests: readonly string[]
  readonly #anyLive: Fresh<boolean>
  readonly #verified: VerifiedTokens
  readonly #watch: TokenWatch

  constructor(store: TokenStore, options: AuthenticatorOptions) {
    const { clock = systemClock } = options
    const freshness = { clock, maxAgeMs, deadlineMs }
    this.#store = store
    this.#options = options
    this.#bootstrapDigests = options.bootstrap.map(checkBootstrap)
    this.#anyLive = new Fresh(() => store.hasLive(), { clock, maxAgeMs: anyLiveMaxAgeMs, deadlineMs })
    this.#watch = new TokenWatch({
      ...{ clock, everyMs, unsureMs },
      live: (ids) => inTime(() => this.#live(ids), { clock, deadlineMs }),
      onEnded: (id) => this.#verified.forget(id),
    })
    const remembering = { maxEntries: maxRemembered, wrongMs, watch: this.#watch }
    this.#verified = new VerifiedTokens(store, { ...freshness, ...remembering })
    this.tokens = createTokens({ store, onChange: (id, change) => this.#changed(id, change) })
  }

  async isRequired(): Promise<boolean> {
    return this.#isRequired()
  }

  /** Answers synchronously when no look-up is needed, so that the usual request does not wait a turn. */
  authenticate(
    incoming: Pick<Incoming, 'header'> & Partial<Pick<Incoming, 'address'>>,
  ): Principal | Promise<Principal> {
    const authorization = incoming.header('authorization')
    const namespace = incoming.header('signalbox-namespace')
    if (authorization !== undefined) {
      const identifying = this.#identify(authorization, incoming)
      return identifying.then((identity) => asPrincipal(identity, namespace))
    }
    const needsToken = this.#isRequired()
    if (needsToken instanceof Promise) {
      return needsToken.then((isNeeded) => {
        if (isNeeded) throw tokenMissing()
        return localPrincipal(namespace)
      })
    }
    if (needsToken) throw tokenMissing()
    return localPrincipal(namespace)
  }

  watch({ id }: Principal, ended: (reason: SignalboxError) => void): () => void {
    // A bootstrap secret, or the trust in the app, lasts as long as the process.
    if (id === bootstrap.id || (id === local.id && this.#options.trust)) return () => {}
    return this.#watch.watch(id, ended)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watch.close()
  }

  #isRequired(): boolean | Promise<boolean> {
    const { trust, bootstrap, loopback } = this.#options
    if (trust) return false
    return bootstrap.length > 0 || !loopback || this.#anyLive.get()
  }

  async #identify(authorization: string, incoming: ForwardedRequest): Promise<Identity> {
    const secret = readBearer(authorization)
    if (secret === undefined) throw unauthorized('The Authorization header must be "Bearer <token>".')
    const presented = presentSecret(secret)
    if (this.#isBootstrap(presented)) return bootstrap
    // Looks up the token before the throttle: a valid token works even if other clients of its address send wrong ones.
    const token = await this.#verified.find(presented)
    if (token) return token
    const { failures, clients } = this.#options
    failures?.count(clients?.of(incoming) ?? incoming.address ?? '')
    throw unauthorized('The token is not valid: it is unknown, has expired or was revoked.')
  }

  /**
   * Returns the ids that are still valid. `local`, for clients without a token, is valid until the server needs tokens.
   */
  async #live(ids: readonly string[]): Promise<ReadonlySet<string>> {
    const live = new Set<string>()
    const made = ids.filter((id) => id !== local.id)
    for (let from = 0; from < made.length; from += maxIds)
      for (const token of await this.#store.find(made.slice(from, from + maxIds)))
        if (token.live) live.add(token.id)
    if (made.length < ids.length && !(await this.isRequired())) live.add(local.id)
    return live
  }

  #isBootstrap({ digest }: PresentedSecret): boolean {
    let found = false
    // Compares all digests every time, so the duration does not reveal which one matched.
    for (const one of this.#bootstrapDigests) if (sameDigest(one, digest)) found = true
    return found
  }

  #changed(id: string, change: TokenChange): void {
    this.#anyLive.forget()
    this.#verified.forget(id)
    // Ends at once: when the client gets the answer to its revocation, no wait of the token is left.
    if (change === 'revoked') this.#watch.end(id)
    else void this.#watch.check(id)
    void this.#watch.check(local.id)
  }
}

function checkBootstrap(secret: string, index: number): string {
  if (typeof secret === 'string' && /^[\x21-\x7e]+$/.test(secret) && secret.length >= leastSecretChars)
    return digestOf(secret)
  throw invalidArgument(
    `Bootstrap secret ${index + 1} must be ${leastSecretChars} or more printable ASCII characters without spaces, ` +
      'such as `openssl rand -hex 32` prints.',
  )
}

const scheme = 'bearer '

/** Reads the secret after `Bearer`, which is case-insensitive (RFC 9110, 11.1). */
function readBearer(authorization: string): string | undefined {
  if (authorization.slice(0, scheme.length).toLowerCase() !== scheme) return undefined
  const secret = authorization.slice(scheme.length).trim()
  return secret === '' ? undefined : secret
}

const localByDefault: Principal = Object.freeze(asPrincipal(local, undefined))

function tokenMissing(): SignalboxError {
  return unauthorized('This server needs a token: send the header "Authorization: Bearer <token>".')
}

/** The principal of a request without a token. */
function localPrincipal(namespace: string | undefined): Principal {
  return namespace === undefined ? localByDefault : asPrincipal(local, namespace)
}

function asPrincipal(identity: Identity, header: string | undefined): Principal {
  const { id, name, scope, nodes = null, namespace } = identity
  const who = { id, ...(name !== undefined && { name }), scope, ...(nodes !== null && { nodes }) }
  const asked = header === undefined ? undefined : readNamespace(header)
  if (namespace === everyNamespace) return { ...who, namespace: asked ?? 'default', everyNamespace: true }
  if (asked === undefined || asked === namespace) return { ...who, namespace, everyNamespace: false }
  throw new SignalboxError(
    'forbidden',
    'The token belongs to another namespace than the header Signalbox-Namespace names. Leave the header out, or use a token of that namespace.',
  )
}

/** Headers hold only ASCII, so the name is percent-encoded. */
function readNamespace(header: string): string {
  const name = decode(header)
  if (name !== undefined && name !== everyNamespace) return text('Signalbox-Namespace', name)
  throw invalidArgument('The header Signalbox-Namespace must be the name of one namespace, percent-encoded.')
}

function decode(header: string): string | undefined {
  if (!/^[\x20-\x7e]*$/.test(header)) return undefined
  try {
    return decodeURIComponent(header)
  } catch {
    return undefined
  }
}

function unauthorized(message: string): SignalboxError {
  return new SignalboxError('unauthorized', message, { details: { authenticate: true } })
}
