import { isSignalboxError } from '../../core/errors.ts'
import { version } from '../../core/version.ts'
import type { Client, WireOverview } from '../../http/client/index.ts'
import { isLoopback } from './configuration.ts'
import { judgeDead, judgeQueues, judgeServedSecrets, judgeTokens, judgeUnreadable } from './contents.ts'
import { type Finding, ok, problem, reasonOf, warning } from './finding.ts'
import { type ClockReading, judgeClocks, readClock } from './probes.ts'
import { judgeWarnings } from './store.ts'

/** Checks a running server; its tokens only with an admin token. */
export async function examineServer(
  url: string,
  options: { readonly token?: string | undefined; readonly namespace?: string | undefined },
): Promise<readonly Finding[]> {
  const { createClient } = await import('../../http/client/index.ts')
  using client = createClient(url, options)
  const findings = [...judgeAddress(client.url, options.token !== undefined)]
  try {
    findings.push(...(await examine(client)))
  } catch (error) {
    const advice = isSignalboxError(error, 'unauthorized')
      ? 'Set SIGNALBOX_TOKEN to a valid token.'
      : isSignalboxError(error, 'forbidden')
        ? 'Use a token for this namespace, or another --namespace.'
        : 'Start the server, or correct its address (--url, SIGNALBOX_URL).'
    findings.push(problem('server', client.url, reasonOf(error), advice))
  }
  return findings
}

function judgeAddress(url: string, hasToken: boolean): readonly Finding[] {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:' || isLoopback(hostname)) return []
  return [
    warning(
      'tls',
      url,
      `The connection is plain HTTP: ${hasToken ? 'the token and ' : ''}all data can be read on the network.`,
      'Use https://: give the server a certificate (--tls-cert), or put a proxy with TLS in front.',
    ),
  ]
}

async function examine(client: Client): Promise<readonly Finding[]> {
  const me = await client.overview.me()
  let overview: WireOverview | undefined
  const clock: ClockReading = await readClock(client.url, async () => {
    overview = await client.overview.get()
    return overview.at
  })
  const { readiness, problems, queues, at } = overview!
  return [
    ...judgeVersion(client.url, me.server.version),
    ...judgeReadiness(client.url, readiness),
    ...judgeWarnings(me.server.engine, me.server.warnings),
    ...(me.scope === 'admin' ? judgeTokens(await listTokens(client, at), at) : []),
    ...judgeQueues(queues, at),
    ...judgeServedSecrets(
      client.url,
      (await client.monitor.subscriptions()).map(({ channel }) => channel),
    ),
    ...problems.flatMap(judgeOther),
    ...judgeClocks([clock]),
  ]
}

function judgeVersion(url: string, served: string): readonly Finding[] {
  if (served === version) return [ok('version', url, `The server and this command are both ${version}.`)]
  return [
    warning(
      'version',
      url,
      `The server is ${served}, and this command is ${version}.`,
      'Upgrade the older of the two.',
    ),
  ]
}

function judgeReadiness(url: string, { checks }: WireOverview['readiness']): readonly Finding[] {
  const failed = checks.filter((check) => !check.ok)
  if (failed.length === 0) return [ok('ready', url, `It is ready: ${checks.length} checks pass.`)]
  return failed.map(({ name, detail }) =>
    problem(
      'ready',
      name,
      `This check of the server fails${detail === undefined ? '' : `: ${detail}`}.`,
      'See the log of the server. A restart helps when a loop makes no progress.',
    ),
  )
}

/** Other problems that the server reports. */
export function judgeOther({
  kind,
  subject,
  count,
  detail,
}: Pick<WireOverview['problems'][number], 'kind' | 'subject' | 'count' | 'detail'>): readonly Finding[] {
  if (kind === 'no_nodes')
    return [
      warning(
        'nodes',
        subject,
        `${count} tasks wait or run, and no node is connected.`,
        'Start nodes, or see `signalbox nodes ls`.',
      ),
    ]
  if (kind === 'dead_notifications') return [judgeDead(subject, count)]
  if (kind === 'channel_sealed') return [judgeUnreadable(subject, detail)]
  return []
}

type ServedToken = Awaited<ReturnType<Client['tokens']['list']>>['items'][number] & { readonly live: boolean }

async function listTokens(client: Client, now: number): Promise<readonly ServedToken[]> {
  const all: ServedToken[] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<Client['tokens']['list']>> = await client.tokens.list({
      limit: 500,
      ...(cursor === null ? {} : { cursor }),
    })
    const isLive = ({ revokedAt, expiresAt }: (typeof page.items)[number]) =>
      revokedAt === null && (expiresAt === null || expiresAt > now)
    all.push(...page.items.map((token) => ({ ...token, live: isLive(token) })))
    cursor = page.cursor
  } while (cursor !== null && all.length < 10_000)
  return all
}
