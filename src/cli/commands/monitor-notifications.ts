import { Command } from 'commander'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { oneOf } from '../../core/options.ts'
import type { Box, RemoteBox } from '../../index.ts'
import { notificationStatuses, type ShownNotification } from '../../monitor/index.ts'
import { numberOr } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { printTable, showSpan } from '../table.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

type AnyMonitor = Box['monitor'] | RemoteBox['monitor']

interface ListFlags extends PlaceFlags {
  readonly state?: string
  readonly subscription?: string
  readonly limit?: string
}

/** `signalbox monitor notifications`: what was sent or is to be, newest first. */
export function notificationsCommand(printer: Printer): Command {
  const command = new Command('notifications')
    .description('list notifications, newest first: to whom, in which state, and why they failed')
    .option('--state <state>', `only those in this state: ${notificationStatuses.join(', ')}`)
    .option('--subscription <name>', 'only those of this subscription, by its name or id')
    .option('--limit <number>', 'how many at most', '50')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox monitor notifications --state dead\n  signalbox monitor notifications --subscription desk --json',
    )
    .action(async ({ json, state, subscription, limit, ...place }: ListFlags) => {
      const status = state === undefined ? undefined : oneOf('--state', state, notificationStatuses)
      await using box = await openPlace(command, place)
      const subscriptionId = await idOf(box.monitor, subscription)
      const page = await box.monitor.notifications({
        status,
        subscriptionId,
        limit: numberOr(limit!) as number,
      })
      if (json) return printer.json(page)
      if (page.items.length === 0) return printer.line('There are no such notifications.')
      printNotifications(printer, page.items)
    })
  return addBoxFlags(command)
}

function printNotifications(printer: Printer, items: readonly ShownNotification[]): void {
  const now = Date.now()
  printTable(
    printer,
    ['=ID', 'STATE', 'SUBSCRIPTION', 'SUBJECT', 'TRIES', 'AGE', 'ERROR'],
    items.map((one) => [
      ...[one.id, one.status, one.subscription, nameOf(one)],
      `${one.attempt}/${one.maxAttempts}`,
      showSpan(now - one.createdAt),
      one.error?.message ?? null,
    ]),
  )
}

function nameOf({ source, subject, timeSlot, venueId }: ShownNotification): string {
  return subject === undefined ? `${source} ${timeSlot} ${venueId}` : `${source} ${subject}`
}

interface ReplayFlags extends PlaceFlags {
  readonly dead?: boolean
  readonly subscription?: string
}

/** `signalbox monitor replay`: sends dead or held notifications once more. */
export function replayCommand(printer: Printer, endWith: (exitCode: number) => void): Command {
  const command = new Command('replay')
    .description('send dead or held notifications once more: these, or all that are dead')
    .argument('[ids...]', 'the notifications')
    .option('--dead', 'all that are dead')
    .option('--subscription <name>', 'with --dead: only those of this subscription, by its name or id')
    .addHelpText(
      'after',
      '\nExit codes: 0 all are sent again, 1 some were refused.\n' +
        '\nExamples:\n  signalbox monitor replay 01k9z3v8qe0m4t9wq3rb5c7xkd\n  signalbox monitor replay --dead --subscription desk',
    )
    .action(async (ids: readonly string[], { json, dead = false, subscription, ...place }: ReplayFlags) => {
      if (dead === ids.length > 0 || (subscription !== undefined && !dead))
        throw new SignalboxError(
          'invalid_argument',
          'Give the ids of notifications, or --dead for all dead ones. --subscription needs --dead.',
        )
      await using box = await openPlace(command, place)
      const chosen = dead ? await findDead(box.monitor, await idOf(box.monitor, subscription)) : ids
      const { replayed, refused } = await replayAll(box.monitor, chosen)
      if (json) printer.json({ replayed, refused })
      else {
        for (const { message } of refused) printer.problem(message)
        printer.line(`${replayed.length} notification${replayed.length === 1 ? ' is' : 's are'} sent again`)
      }
      if (refused.length > 0) endWith(1)
    })
  return addBoxFlags(command)
}

interface Replays {
  readonly replayed: string[]
  readonly refused: { readonly id: string; readonly code: string; readonly message: string }[]
}

async function replayAll(monitor: AnyMonitor, ids: readonly string[]): Promise<Replays> {
  const done: Replays = { replayed: [], refused: [] }
  for (const id of ids) {
    try {
      await monitor.replay(id)
      done.replayed.push(id)
    } catch (error) {
      if (!isSignalboxError(error, 'not_found') && !isSignalboxError(error, 'conflict')) throw error
      done.refused.push({ id, code: error.code, message: error.message })
    }
  }
  return done
}

/** All of them before the first is replayed, because a replay takes it out of the list. */
async function findDead(monitor: AnyMonitor, subscriptionId: string | undefined): Promise<readonly string[]> {
  const ids: string[] = []
  let cursor: string | null = null
  do {
    const page: Awaited<ReturnType<AnyMonitor['notifications']>> = await monitor.notifications({
      ...{ status: 'dead', subscriptionId, limit: 500, cursor },
    })
    ids.push(...page.items.map(({ id }) => id))
    cursor = page.cursor
  } while (cursor !== null)
  return ids
}

/** The id of a subscription by its name or id; undefined: any. */
async function idOf(monitor: AnyMonitor, given: string | undefined): Promise<string | undefined> {
  if (given === undefined) return undefined
  const all = await monitor.subscriptions()
  const found = all.filter(({ id, name }) => id === given || name === given)
  if (found.length === 1) return found[0]!.id
  if (found.length === 0) throw new SignalboxError('not_found', `There is no subscription "${given}".`)
  throw new SignalboxError(
    'invalid_argument',
    `${found.length} subscriptions are called "${given}". Name one by its id: ${found.map(({ id }) => id).join(', ')}.`,
  )
}
