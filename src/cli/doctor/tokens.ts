import type { Token } from '../../access/index.ts'
import { showSpan } from '../table.ts'
import { type Finding, ok, warning } from './finding.ts'

const soonMs = 7 * 86_400_000

/** What is to be said of the tokens that count, those that ended left out. */
export function judgeTokens(
  tokens: readonly (Token & { readonly live: boolean })[],
  now: number,
): readonly Finding[] {
  const live = tokens.filter((token) => token.live)
  const findings = live.flatMap((token) => judgeToken(token, now))
  if (findings.length > 0) return findings
  return [
    ok('tokens', 'tokens', live.length === 0 ? 'There are none.' : `${live.length} count, and all is well.`),
  ]
}

function judgeToken({ id, name, scope, namespace, expiresAt }: Token, now: number): readonly Finding[] {
  const subject = `${name} (${id})`
  if (scope === 'admin' && expiresAt === null)
    return [
      warning(
        'tokens',
        subject,
        `It may do everything${namespace === '*' ? ' in every namespace' : ''}, for ever.`,
        `Make one that expires (\`signalbox token create --scope admin --expires 90d\`), then \`signalbox token revoke ${id}\`.`,
      ),
    ]
  if (expiresAt !== null && expiresAt - now < soonMs)
    return [
      warning(
        'tokens',
        subject,
        `It expires in ${showSpan(Math.max(0, expiresAt - now))}.`,
        'Make another with `signalbox token create` and give it to whoever uses this one.',
      ),
    ]
  return []
}
