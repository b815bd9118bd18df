/** Local stand-ins of the message providers; they import nothing of Signalbox. */
export { type DingTalkOptions, startDingTalk } from './dingtalk.ts'
export { type FeishuOptions, startFeishu } from './feishu.ts'
export { type Receiver, type ReceiverOptions, startReceiver } from './receiver.ts'
export { type SlackOptions, startSlack } from './slack.ts'
export type { Misbehaviour, Refusal, StandIn, StandInOptions, TakenMessage } from './stand-in.ts'
export { startWeCom, type WeComOptions } from './wecom.ts'
