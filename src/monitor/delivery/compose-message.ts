import { invalidArgument } from '../../core/errors.ts'
import { parseJson } from '../../core/json.ts'
import type { Message, MessageChange } from '../channels/channel.ts'
import { oneLine } from '../channels/paging.ts'
import type { NotificationRecord } from '../monitor-store.ts'
import { showPlace } from '../subject-forms.ts'

/**
 * Composes the text of messages: one line for each change, from the subscription's template or a plain sentence. Values
 * are inserted in one pass, so a state cannot act as a template. Pure.
 */

/** The placeholders of a template, without their braces. */
const templatePlaceholders = [
  'source',
  'subject',
  'timeSlot',
  'venueId',
  'from',
  'to',
  'at',
  'reason',
] as const

type Placeholder = (typeof templatePlaceholders)[number]

const maxTemplate = 2_000
const maxValue = 120

/** Returns the template if it has only known placeholders. Throws `invalid_argument`. */
export function checkTemplate(name: string, value: unknown): string {
  const known = templatePlaceholders.map((placeholder) => `{${placeholder}}`).join(' ')
  if (
    typeof value !== 'string' ||
    value.trim() === '' ||
    value.length > maxTemplate ||
    !value.isWellFormed()
  ) {
    throw invalidArgument(
      `${name} must be text of 1 to ${maxTemplate} characters. Placeholders for the values of a change: ${known}.`,
      name,
    )
  }
  for (const [, word = ''] of value.matchAll(/\{([^{}]*)\}/g)) {
    if ((templatePlaceholders as readonly string[]).includes(word)) continue
    throw invalidArgument(
      `${name} contains the unknown placeholder {${clip(word, 40)}}. Allowed placeholders: ${known}.`,
      name,
    )
  }
  return value
}

/** One change of a message: a notification and its subscription's template. */
export interface MessageItem {
  readonly record: NotificationRecord
  readonly template: string | null
}

/** Composes the message of these items. `id` is that of the notification or of the digest. */
export function composeMessage(id: string, items: readonly MessageItem[], possibleRepeat: boolean): Message {
  const [first] = items
  const isDigest = items.length > 1
  return {
    id,
    kind: isDigest ? 'digest' : wordsOf(first!.record).kind,
    title: isDigest ? `${items.length} changes` : titleOf(first!.record),
    changes: items.map(changeOf),
    possibleRepeat,
  }
}

/** Composes a test message for a channel. */
export function composeTest(id: string, now: number): Message {
  return {
    id,
    kind: 'test',
    title: 'Test message',
    changes: [
      {
        notificationId: id,
        source: 'signalbox',
        subject: 'test',
        from: null,
        to: 'ok',
        line: 'This is a test: messages of this channel arrive here.',
        at: now,
      },
    ],
    possibleRepeat: false,
  }
}

function changeOf({ record, template }: MessageItem): MessageChange {
  const { id, source, group, name, createdAt } = record
  const from = record.from === null ? null : parseJson(record.from, record.from)
  const to = parseJson(record.to, record.to)
  const words = wordsOf(record)
  return {
    notificationId: id,
    ...showPlace(record),
    from,
    to,
    line: fill(template ?? alertSentence(record, to) ?? `{source} {subject}: ${words.sentence}`, {
      source: oneLine(source),
      subject: oneLine(group === '' ? name : `${group} ${name}`),
      timeSlot: oneLine(group),
      venueId: oneLine(name),
      from: record.from === null ? 'nothing' : showValue(from),
      to: showValue(to),
      at: new Date(createdAt).toISOString(),
      reason: words.reason,
    }),
    at: createdAt,
  }
}

/** The source of a server's alerts, whose states have a sentence for operators (see fleet/alerts). */
const alertSource = 'signalbox'

/** The sentence of an alert: the problem, or that it is over. Undefined for other subjects. */
function alertSentence({ source, kind }: NotificationRecord, to: unknown): string | undefined {
  const isAlert = source === alertSource && kind !== 'flapping'
  const { says } = (isAlert && typeof to === 'object' && to !== null ? to : {}) as { says?: unknown }
  return typeof says === 'string' ? `{subject}: ${showValue(says).replaceAll(/[{}]/g, '')}` : undefined
}

/** The title of an alert. Only the subject of a test is `ok` in its first state. */
function alertTitle(name: string, { from }: NotificationRecord, to: unknown): string {
  if ((to as { status?: unknown }).status !== 'ok') return `Alert: ${name}`
  return from === null ? 'Test alert' : `Over: ${name}`
}

/** Fills a template in one pass, so that a value with braces stays unchanged. */
function fill(template: string, values: Readonly<Record<Placeholder, string>>): string {
  return template.replace(/\{([^{}]*)\}/g, (whole, word: string) =>
    Object.hasOwn(values, word) ? values[word as Placeholder] : whole,
  )
}

/** The texts of a notification: the sentence is a template that follows the subject, the title follows its name. */
interface Words {
  readonly kind: 'change' | 'flapping' | 'reconcile'
  readonly sentence: string
  readonly reason: string
  readonly title: string
}

function wordsOf({ kind, from }: NotificationRecord): Words {
  if (kind === 'flapping')
    return { kind, sentence: 'keeps changing, now {to}', reason: 'keeps changing', title: 'keeps changing' }
  if (kind === 'reconcile') {
    const sentence = from === null ? 'is now {to}' : 'is now {to} (last notified: {from})'
    return { kind, sentence, reason: 'still true', title: 'is still so' }
  }
  return from === null
    ? { kind: 'change', sentence: 'first seen, {to}', reason: 'new', title: 'is new' }
    : { kind: 'change', sentence: '{from} → {to}', reason: 'changed', title: 'changed' }
}

function titleOf(record: NotificationRecord): string {
  const name = oneLine(record.name)
  const to = parseJson(record.to, record.to)
  if (alertSentence(record, to) !== undefined) return alertTitle(name, record, to)
  return `${name} ${wordsOf(record).title}`
}

/** Shows a state on one short line: text as it is, other values as JSON. */
export function showValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return clip(oneLine(text), maxValue)
}

function clip(text: string, most: number): string {
  // Cut first, because a state may be long; then count whole characters.
  const characters = [...text.slice(0, most * 2 + 2)]
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : text
}
