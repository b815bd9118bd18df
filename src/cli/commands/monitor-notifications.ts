import { invalidArgument, isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { oneOf } from '../../core/options.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { type Explanation, notificationStatuses, type ShownNotification } from '../../monitor/index.ts'
import { numberOr } from '../config/value-kinds.ts'
import { type Printer, printList, printTable, showSpan } from '../print.ts'
import { CliCommand, type Flags, readAll } from './cli-command.ts'

type AnyMonitor = Box['monitor'] | RemoteBox['monitor']

type ListFlags = Flags<'state' | 'subscription' | 'limit'>

/** `signalbox monitor notifications`: lists notifications, newest first. */
export function notificationsCommand(printer: Printer): CliCommand {
  return new CliCommand('notifications', 'list notifications, newest first: subscription, state, error')
    .option('--state <state>', `only this state: ${notificationStatuses.join(', ')}`)
    .option('--subscription <name>', 'only this subscription, by its name or id')
    .option('--limit <number>', 'the most notifications', '50')
    .examples('monitor notifications --state dead', 'monitor notifications --subscription desk --json')
    .onBox(({ json, state, subscription, limit }: ListFlags) => {
      const status = state === undefined ? undefined : oneOf('--state', state, notificationStatuses)
      return async (box) => {
        const subscriptionId = await idOf(box.monitor, subscription)
        const page = await box.monitor.notifications({
          status,
          subscriptionId,
          limit: numberOr(limit!) as number,
        })
        if (json) return printer.json(page)
        const now = Date.now()
        const heads = ['=ID', 'STATE', 'SUBSCRIPTION', 'SUBJECT', 'TRIES', 'AGE', 'ERROR']
        printList(printer, { items: page.items }, 'No notifications found.', heads, (one) => [
          ...[one.id, one.status, one.subscription, nameOf(one)],
          `${one.attempt}/${one.maxAttempts}`,
          showSpan(now - one.createdAt),
          one.error?.message ?? null,
        ])
      }
    })
}

function nameOf({ source, subject, timeSlot, venueId }: ShownNotification): string {
  return subject === undefined ? `${source} ${timeSlot} ${venueId}` : `${source} ${subject}`
}

/** `signalbox monitor replay`: sends dead or held notifications again. */
export function replayCommand(printer: Printer, endWith: (exitCode: number) => void): CliCommand {
  return new CliCommand('replay', 'send dead or held notifications again, by id or all dead ones')
    .argument('[ids...]', 'the notifications')
    .option('--dead', 'all dead notifications')
    .option('--subscription <name>', 'with --dead: only this subscription, by its name or id')
    .note('Exit codes: 0 all are queued again, 1 some were refused.')
    .examples('monitor replay 01k9z3v8qe0m4t9wq3rb5c7xkd', 'monitor replay --dead --subscription desk')
    .onBox((ids: readonly string[], { json, dead = false, subscription }: Flags<'subscription', 'dead'>) => {
      if (dead === ids.length > 0 || (subscription !== undefined && !dead))
        throw invalidArgument(
          'Give the ids of notifications, or --dead for all dead ones. --subscription needs --dead.',
        )
      return async (box) => {
        const chosen = dead ? await findDead(box.monitor, await idOf(box.monitor, subscription)) : ids
        const { replayed, refused } = await replayAll(box.monitor, chosen)
        if (json) printer.json({ replayed, refused })
        else {
          for (const { message } of refused) printer.problem(message)
          printer.line(
            `${replayed.length} notification${replayed.length === 1 ? ' is' : 's are'} queued again`,
          )
        }
        if (refused.length > 0) endWith(1)
      }
    })
}

interface Replays {
  readonly replayed: string[]
  readonly refused: { readonly id: string; readonly code: string; readonly message: string }[]
}

async function replayAll(monitor: AnyMonitor, ids: readonly string[]): Promise<Replays> {
  const replays: Replays = { replayed: [], refused: [] }
  for (const id of ids) {
    try {
      await monitor.replay(id)
      replays.replayed.push(id)
    } catch (error) {
      if (!isSignalboxError(error, 'not_found') && !isSignalboxError(error, 'conflict')) throw error
      replays.refused.push({ id, code: error.code, message: error.message })
    }
  }
  return replays
}

/** Reads all dead notifications before the first replay, because a replay removes them from the list. */
async function findDead(monitor: AnyMonitor, subscriptionId: string | undefined): Promise<readonly string[]> {
  const dead = await readAll((cursor) =>
    monitor.notifications({ status: 'dead', subscriptionId, limit: 500, cursor }),
  )
  return dead.map(({ id }) => id)
}

/** Finds the id of a subscription by its name or id. Undefined: all subscriptions. */
async function idOf(monitor: AnyMonitor, given: string | undefined): Promise<string | undefined> {
  if (given === undefined) return undefined
  const all = await monitor.subscriptions()
  const found = all.filter(({ id, name }) => id === given || name === given)
  if (found.length === 1) return found[0]!.id
  if (found.length === 0) throw new SignalboxError('not_found', `There is no subscription "${given}".`)
  throw invalidArgument(
    `${found.length} subscriptions are called "${given}". Name one by its id: ${found.map(({ id }) => id).join(', ')}.`,
  )
}

/** `signalbox monitor explain`: explains why subscribers were notified of a subject, or why not. */
export function explainCommand(printer: Printer): CliCommand {
  return new CliCommand('explain')
    .description(
      'say why subscribers were notified of a subject, or why not: its state, its windows, the decisions',
    )
    .argument('<source>', 'the source of the reports')
    .argument('<subject>', 'the subject; or the time slot, if a venue follows')
    .argument('[venueId]', 'the venue')
    .option('--limit <number>', 'the most decisions, newest first', '20')
    .examples(
      'monitor explain siteA court-1',
      'monitor explain siteA 2025-06-01 court-1',
      'monitor explain siteA 2025-06-01 court-1 --json',
    )
    .onBox(
      (source: string, subject: string, venueId: string | undefined, { json, limit }: Flags<'limit'>) =>
        async (box) => {
          const explanation = await box.monitor.explain({
            ...(venueId === undefined ? { source, subject } : { source, timeSlot: subject, venueId }),
            limit: numberOr(limit!) as number,
          })
          if (json) printer.json(explanation)
          else printExplanation(printer, explanation)
        },
    )
}

function printExplanation(printer: Printer, explanation: Explanation): void {
  const { present, windows, decisions } = explanation
  const now = Date.now()
  const ago = (at: number) => `${showSpan(now - at)} ago`
  const names = namesOf(explanation)
  if (present === null) printer.line('It was never reported.')
  else
    printer.line(
      `State: ${textOf(present.state)} (changed ${ago(present.changedAt)}, observed ${ago(present.observedAt)})`,
    )
  if (windows.length > 0) {
    printer.line('')
    printTable(
      printer,
      ['SUBSCRIPTION', 'WINDOW', 'STATE', 'NOTIFIED', 'ENDS'],
      windows.map((window) => [
        window.subscription ?? window.subscriptionId,
        window.status,
        'state' in window ? textOf(window.state) : null,
        window.notifiedAt && ago(window.notifiedAt),
        window.endsAt && (window.endsAt > now ? `in ${showSpan(window.endsAt - now)}` : ago(window.endsAt)),
      ]),
    )
  }
  if (decisions.length === 0) return
  printer.line('')
  printTable(
    printer,
    ['DECIDED', 'REASON', 'FROM', 'TO', 'SUBSCRIBERS'],
    decisions.map(({ decidedAt, reason, from, to, verdicts }) => [
      ago(decidedAt),
      reason,
      from === null ? null : textOf(from),
      textOf(to),
      verdicts
        .map(({ subscriptionId, notified, reason: why, notification }) => {
          const what = notified ? (notification?.status ?? 'notified') : why
          return `${names.get(subscriptionId) ?? subscriptionId}: ${what}`
        })
        .join(', ') || null,
    ]),
  )
}

function namesOf({ windows, decisions }: Explanation): ReadonlyMap<string, string> {
  const known = [
    ...windows,
    ...decisions.flatMap(({ verdicts }) => verdicts.flatMap(({ notification }) => notification ?? [])),
  ]
  return new Map(
    known.flatMap(({ subscriptionId, subscription }) =>
      subscription === null ? [] : [[subscriptionId, subscription] as const],
    ),
  )
}

const shownChars = 60

function textOf(state: unknown): string {
  const text = typeof state === 'string' ? state : JSON.stringify(state)
  return text.length > shownChars ? `${text.slice(0, shownChars - 1).toWellFormed()}…` : text
}
