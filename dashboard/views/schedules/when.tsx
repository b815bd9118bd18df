import type { ReactNode } from 'react'
import type { WireSchedule } from '../../../src/http/client/index.ts'
import { Text } from '../../kit/text/text.tsx'
import { usePreferences } from '../../shell/preferences.ts'
import { type Language, localeOf, type Say } from '../../words/catalogue.ts'
import { useFormat, useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'
import { type CronIdea, readCron } from './cron-idea.ts'

export interface WhenProps {
  readonly schedule: Pick<WireSchedule, 'cron' | 'timeZone' | 'everyMs'>
}

/** When a schedule runs: in words where there are few of them, and its line with its zone. */
export function When({ schedule: { cron, timeZone, everyMs } }: WhenProps): ReactNode {
  const say = useWords(schedulesWords)
  const format = useFormat()
  const { language } = usePreferences()
  if (cron === null) return everyMs === null ? '–' : say('every', { span: format.span(everyMs) })
  const idea = readCron(cron)
  return (
    <span className="schedules-when">
      {idea && <span>{tell(idea, say, language)}</span>}
      <span className={idea ? 'aside' : undefined}>
        <Text value={cron} mono /> <Text value={timeZone ?? 'UTC'} />
      </span>
    </span>
  )
}

/** A Sunday, in the zone that the names of days are asked for. */
const sunday = Date.UTC(2026, 0, 4)
const dayMs = 86_400_000

function tell(idea: CronIdea, say: Say<typeof schedulesWords>, language: Language): string {
  switch (idea.key) {
    case 'everyMinute':
      return say('everyMinute')
    case 'everyMinutes':
      return say('everyMinutes', idea)
    case 'everyHour':
      return say('everyHour', idea)
    case 'everyDay':
      return say('everyDay', idea)
    case 'everyMonth':
      return say('everyMonth', idea)
    case 'onWeekdays': {
      const isWorkWeek = idea.days.toSorted().join('') === '12345'
      return say('onWeekdays', {
        days: isWorkWeek ? say('mondayToFriday') : namesOf(idea.days, language),
        time: idea.time,
      })
    }
  }
}

function namesOf(days: readonly number[], language: Language): string {
  const locale = localeOf[language]
  const name = new Intl.DateTimeFormat(locale, {
    weekday: language === 'zh' ? 'short' : 'long',
    timeZone: 'UTC',
  })
  return new Intl.ListFormat(locale).format(days.map((day) => name.format(sunday + day * dayMs)))
}
