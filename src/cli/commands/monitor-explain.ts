import { Command } from 'commander'
import type { Explanation } from '../../monitor/index.ts'
import { numberOr } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { printTable, showSpan } from '../table.ts'
import { addBoxFlags, openPlace, type PlaceFlags } from './place.ts'

interface ExplainFlags extends PlaceFlags {
  readonly limit?: string
}

/** `signalbox monitor explain`: why subscribers were notified of a subject, or why not. */
export function explainCommand(printer: Printer): Command {
  const command = new Command('explain')
    .description(
      'say why subscribers were notified of a subject, or why not: its state, its windows, the decisions',
    )
    .argument('<source>', 'the source of the reports')
    .argument('<subject>', 'the subject; or the time slot, if a venue follows')
    .argument('[venueId]', 'the venue')
    .option('--limit <number>', 'how many decisions at most, newest first', '20')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox monitor explain siteA court-1\n  signalbox monitor explain siteA 2025-06-01 court-1\n  signalbox monitor explain siteA 2025-06-01 court-1 --json',
    )
    .action(
      async (
        source: string,
        subject: string,
        venueId: string | undefined,
        { json, limit, ...place }: ExplainFlags,
      ) => {
        await using box = await openPlace(command, place)
        const explanation = await box.monitor.explain({
          ...(venueId === undefined ? { source, subject } : { source, timeSlot: subject, venueId }),
          limit: numberOr(limit!) as number,
        })
        if (json) printer.json(explanation)
        else printExplanation(printer, explanation)
      },
    )
  return addBoxFlags(command)
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

/** The names of subscriptions, as far as the explanation has them. */
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
