import { type FormEvent, type ReactNode, useState } from 'react'
import type { WireSchedule } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Select } from '../../kit/field.tsx'
import { Problem } from '../../kit/problem.tsx'
import { visible } from '../../kit/text/visible.ts'
import { kitWords } from '../../words/kit.ts'
import { useWords } from '../../words/language.tsx'
import { schedulesWords } from '../../words/schedules.ts'
import { FormField } from './form-field.tsx'
import { useSave } from './saving.ts'
import { type Field, write } from './written.ts'

export interface ScheduleFormProps {
  /** The one to change; without it a new one is made. */
  readonly schedule?: WireSchedule | undefined
  readonly onClose: () => void
}

const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone
const zones = [...new Set(['UTC', ...Intl.supportedValuesOf('timeZone')])]

/** Sets a schedule. What the server refuses is said at the field that it is about. */
export function ScheduleForm({ schedule, onClose }: ScheduleFormProps): ReactNode {
  const say = useWords(schedulesWords)
  const sayKit = useWords(kitWords)
  const { working, wrong, save } = useSave(schedule, onClose)
  const [written, setWritten] = useState(() => write(schedule, ownZone))
  const field = (name: Field) => ({
    value: written[name],
    onChange: (value: string) => setWritten({ ...written, [name]: value }),
    error: wrong !== undefined && wrong.field === name ? textOf(wrong.error) : undefined,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!working) void save(written)
  }
  return (
    <Dialog
      wide
      title={schedule === undefined ? say('add') : say('changeOf', { name: visible(schedule.name) })}
      onClose={onClose}
    >
      <form onSubmit={submit} noValidate>
        <div className="schedules-form">
          {schedule === undefined && <FormField first label={say('name')} {...field('name')} />}
          <div className="schedules-row">
            <Select
              label={say('runsBy')}
              value={written.by}
              options={[
                ['cron', say('byCron')],
                ['everyMs', say('byRate')],
              ]}
              onChange={(by) => setWritten({ ...written, by })}
            />
            <Select
              label={say('catchUp')}
              value={written.catchUp}
              options={(['one', 'all', 'none'] as const).map((one) => [one, say(`${one}_`)] as const)}
              onChange={(catchUp) => setWritten({ ...written, catchUp })}
            />
          </div>
          {written.by === 'cron' ? (
            <div className="schedules-row">
              <FormField mono label={say('line')} hint={say('lineHint')} {...field('cron')} />
              <FormField
                label={say('zone')}
                hint={say('zoneHint')}
                suggestions={zones}
                {...field('timeZone')}
              />
            </div>
          ) : (
            <FormField mono label={say('everyField')} hint={say('everyHint')} {...field('everyMs')} />
          )}
          <div className="schedules-row">
            <FormField label={say('kind')} hint={say('kindHint')} {...field('kind')} />
            <FormField label={say('queue')} hint={say('queueHint')} {...field('queue')} />
          </div>
          <FormField long mono label={say('payloadField')} hint={say('payloadHint')} {...field('payload')} />
        </div>
        {schedule !== undefined && <p className="aside">{say('changeMeans')}</p>}
        {wrong !== undefined && wrong.field === undefined && <Problem error={wrong.error} />}
        <div className="dialog-feet">
          <Button onPress={onClose}>{sayKit('cancel')}</Button>
          <Button type="submit" look="main" disabled={working}>
            {working ? sayKit('working') : say('save')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
