import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Signs every request when -Dacl.accessKey and -Dacl.secretKey are given. */
final class Credentials {
    private Credentials() {
    }

    /** The signing hook, or null when no credentials were given. */
    static RPCHook hook() {
        String accessKey = System.getProperty("acl.accessKey");
        if (accessKey == null) {
            return null;
        }
        String secretKey = System.getProperty("acl.secretKey");
        return new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
    }
}
