/** What a common cron line means; other lines are shown as they are. */
export type CronIdea =
  | { readonly key: 'everyMinute' }
  | { readonly key: 'everyMinutes'; readonly count: number }
  | { readonly key: 'everyHour'; readonly minute: string }
  | { readonly key: 'everyDay'; readonly time: string }
  /** Sunday is 0. */
  | { readonly key: 'onWeekdays'; readonly days: readonly number[]; readonly time: string }
  | { readonly key: 'everyMonth'; readonly day: number; readonly time: string }

const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

/** Reads the lines that most people write. Null: it says more than a few words can. */
export function readCron(line: string): CronIdea | null {
  const fields = line.trim().toLowerCase().split(/\s+/)
  // With six fields the first is the second; the second 0 equals a cron line of five fields.
  if (fields.length === 6 && fields[0] === '0') fields.shift()
  if (fields.length !== 5 || fields[3] !== '*') return null
  const [minute, hour, day, , weekday] = fields as [string, string, string, string, string]
  const isEveryDay = day === '*' && weekday === '*'
  if (hour === '*') return isEveryDay ? readMinutes(minute) : null
  const time = readTime(hour, minute)
  if (time === null) return null
  if (isEveryDay) return { key: 'everyDay', time }
  if (day === '*') {
    const days = readDays(weekday)
    return days && { key: 'onWeekdays', days, time }
  }
  if (weekday !== '*' || !/^([1-9]|[12]\d|3[01])$/.test(day)) return null
  return { key: 'everyMonth', day: Number(day), time }
}

function readMinutes(minute: string): CronIdea | null {
  if (minute === '*') return { key: 'everyMinute' }
  const every = Number(/^\*\/(\d{1,2})$/.exec(minute)?.[1])
  if (every === 1) return { key: 'everyMinute' }
  // A step that does not divide 60 restarts each hour, so it is not "every n minutes".
  if (every > 0) return 60 % every === 0 && every < 60 ? { key: 'everyMinutes', count: every } : null
  return /^[0-5]?\d$/.test(minute) ? { key: 'everyHour', minute: minute.padStart(2, '0') } : null
}

function readTime(hour: string, minute: string): string | null {
  if (!/^([01]?\d|2[0-3])$/.test(hour) || !/^[0-5]?\d$/.test(minute)) return null
  return `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`
}

/** Of a list of days and ranges; null for anything else. */
function readDays(field: string): readonly number[] | null {
  const days: number[] = []
  for (const part of field.split(',')) {
    const [first, last = first, ...rest] = part.split('-').map(readDay)
    if (first == null || last == null || rest.length > 0 || last < first) return null
    for (let day = first; day <= last; day++) days.push(day % 7)
  }
  return [...new Set(days)]
}

function readDay(text: string): number | null {
  if (/^[0-7]$/.test(text)) return Number(text)
  const named = dayNames.indexOf(text)
  return named < 0 ? null : named
}
