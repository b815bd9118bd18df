import { invalidArgument } from '../../core/errors.ts'
import { parseJson } from '../../core/json.ts'
import type { Message, MessageChange } from '../channels/channel.ts'
import type { NotificationRecord } from '../monitor-store.ts'
import { showPlace } from '../subject-forms.ts'

/**
 * What people read. A line per change, from the subscription's template or a plain sentence; values are put in once and
 * never looked into again, so nothing in a state can act as a template. Pure.
 */

/** What a template may contain, in braces. */
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

/** The template, if every `{…}` in it is one that is known. */
export function checkTemplate(name: string, value: unknown): string {
  const known = templatePlaceholders.map((placeholder) => `{${placeholder}}`).join(' ')
  if (
    typeof value !== 'string' ||
    value.trim() === '' ||
    value.length > maxTemplate ||
    !value.isWellFormed()
  ) {
    throw invalidArgument(
      `${name} must be text of 1 to ${maxTemplate} characters, in which these stand for the values of a change: ${known}.`,
      name,
    )
  }
  for (const [, word = ''] of value.matchAll(/\{([^{}]*)\}/g)) {
    if ((templatePlaceholders as readonly string[]).includes(word)) continue
    throw invalidArgument(
      `${name} contains {${clip(word, 40)}}, which stands for nothing; there are ${known}.`,
      name,
    )
  }
  return value
}

/** What the message is made of: a notification and its subscription's template. */
export interface MessageItem {
  readonly record: NotificationRecord
  readonly template: string | null
}

/** The message with these items; `id` is the notification's own or the digest's. */
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

/** A message that only shows that the way is open. */
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

/** The source of a server's alerts, whose states have a sentence for people (see fleet/alerts). */
const alertSource = 'signalbox'

/** An alert, in words: what is wrong, or that it is over. Undefined for other subjects. */
function alertSentence({ source, kind }: NotificationRecord, to: unknown): string | undefined {
  const isAlert = source === alertSource && kind !== 'flapping'
  const { says } = (isAlert && typeof to === 'object' && to !== null ? to : {}) as { says?: unknown }
  return typeof says === 'string' ? `{subject}: ${showValue(says).replaceAll(/[{}]/g, '')}` : undefined
}

/** Only the subject of a test is fine from the beginning. */
function alertTitle(name: string, { from }: NotificationRecord, to: unknown): string {
  if ((to as { status?: unknown }).status !== 'ok') return `Alert: ${name}`
  return from === null ? 'Test alert' : `Over: ${name}`
}

/** In one pass, so that a value with braces in it stays what it is. */
function fill(template: string, values: Readonly<Record<Placeholder, string>>): string {
  return template.replace(/\{([^{}]*)\}/g, (whole, word: string) =>
    Object.hasOwn(values, word) ? values[word as Placeholder] : whole,
  )
}

/** What people read about a notification: the sentence is a template behind the subject, the title follows its name. */
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

/** A state as people read it: text as it is, the rest as JSON, cut to a line. */
export function showValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return clip(oneLine(text), maxValue)
}

/** Also without the characters that turn the direction of text round. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu, ' ').trim()
}

function clip(text: string, most: number): string {
  // Cut early, for a state may be long, and by whole characters.
  const characters = [...text.slice(0, most * 2 + 2)]
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : text
}
