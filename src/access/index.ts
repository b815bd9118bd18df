/** Who may do what: bearer tokens with a scope and a namespace, and ranges of addresses. */
export {
  embeddedIpv4,
  groupsOfIpv6,
  type IsInRanges,
  parseRanges,
  readAddress,
} from './address-ranges.ts'
export { FailedAttempts, type FailedAttemptsOptions, networkOf } from './failed-attempts.ts'
export { Fresh, type FreshOptions, inTime } from './fresh-answer.ts'
export { digestOf, isSecret, type PresentedSecret, presentSecret, sameDigest } from './secret.ts'
export * from './token-store.ts'
export { TokenWatch, type TokenWatchOptions } from './token-watch.ts'
export {
  type CreateTokenOptions,
  createTokens,
  type ListedToken,
  type ListTokensOptions,
  type TokenChange,
  type TokenPage,
  type Tokens,
  type TokensParts,
  type TokenWithSecret,
} from './tokens.ts'
export { VerifiedTokens, type VerifiedTokensOptions } from './verified-tokens.ts'
