import { type ReactNode, useState } from 'react'
import { visible } from '../../../kit/text/visible.ts'
import { toast } from '../../../kit/toast.tsx'
import { changed } from '../../../live/queries.ts'
import { useClient } from '../../../shell/session.ts'
import { useWords } from '../../../words/language.tsx'
import { monitorWords } from '../../../words/monitor.ts'
import { ChannelForm, noChannel } from './channel-form.tsx'
import { Field, FormDialog } from './form-dialog.tsx'
import { MatchForm } from './match-form.tsx'
import { everything } from './match-text.ts'
import { noSubscription, subscriptionOf, type WrittenSubscription } from './written-subscription.ts'

/** Makes a subscription. */
export function Subscribing({ onClose }: { readonly onClose: () => void }): ReactNode {
  const say = useWords(monitorWords)
  const client = useClient()
  const [written, write] = useState(noSubscription)
  const [match, setMatch] = useState(everything)
  const [channel, setChannel] = useState(noChannel)
  const field = (name: keyof WrittenSubscription & string) => ({
    value: written[name] as string,
    onChange: (value: string) => write({ ...written, [name]: value }),
  })
  const submit = async () => {
    const { name } = await client.monitor.subscribe(subscriptionOf(written, match, channel, say))
    toast(say('subscribed', { name: visible(name) }))
    await changed('monitor', 'audit')
  }
  return (
    <FormDialog title={say('subscribe')} act={say('subscribe')} onSubmit={submit} onClose={onClose}>
      <p>{say('subscribeMeans')}</p>
      <div className="monitor-fields">
        <Field first label={say('name')} {...field('name')} />
        <Field label={say('window')} hint={say('windowHint')} {...field('window')} />
      </div>
      <MatchForm value={match} onChange={setMatch} />
      <ChannelForm value={channel} onChange={setChannel} />
      <Flag
        label={say('reconcile')}
        checked={written.reconcile}
        onChange={(reconcile) => write({ ...written, reconcile })}
      />
      <Flag
        label={say('notifyNew')}
        checked={written.notifyNew}
        onChange={(notifyNew) => write({ ...written, notifyNew })}
      />
      <details>
        <summary>{say('more')}</summary>
        <div className="monitor-fields">
          <Field label={say('digest')} hint={say('digestHint')} {...field('digest')} />
          <span className="monitor-pair">
            <Field label={say('throttleMax')} {...field('throttleMax')} />
            <Field label={say('throttlePer')} hint={say('perHint')} {...field('throttlePer')} />
          </span>
          <span className="monitor-pair">
            <Field label={say('flapChanges')} {...field('flapChanges')} />
            <Field label={say('flapWithin')} hint={say('perHint')} {...field('flapWithin')} />
          </span>
        </div>
      </details>
    </FormDialog>
  )
}

interface FlagProps {
  readonly label: string
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
}

function Flag({ label, checked, onChange }: FlagProps): ReactNode {
  return (
    <label className="monitor-flag">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} /> {label}
    </label>
  )
}
